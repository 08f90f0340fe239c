//! The pool against a model of its users: no client is lost, passed over, or left waiting.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::plan::Plan;

fn plan() -> Plan {
    let config = r#"{
        "target": {"hosts": [{"host": "h", "port": 1}], "user": "u", "database": "d"},
        "groups": [{"name": "g", "clients": 1, "scripts": [{"name": "s", "text": "select 1"}]}]
    }"#;
    Plan::from_json(config).expect("valid")
}

#[derive(Debug, Clone)]
enum Act {
    Ask,
    Opened,
    /// A connection that was opened, by another thread, is released.
    Arrived,
    OpeningFailed,
    Done(prop::sample::Index),
    PassOn(prop::sample::Index),
    Lost(prop::sample::Index),
    /// A connection turns out to be of no use before its client has used it.
    Invalid(prop::sample::Index),
    /// Idle connections grow old: by number, and whether some must stay.
    Age(u64, bool),
    SetMax(u32),
    Expire(u64),
}

fn any_act() -> impl Strategy<Value = Act> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => Just(Act::Ask),
        4 => Just(Act::Opened),
        4 => Just(Act::Arrived),
        1 => Just(Act::OpeningFailed),
        4 => index().prop_map(Act::Done),
        4 => index().prop_map(Act::PassOn),
        1 => index().prop_map(Act::Lost),
        1 => index().prop_map(Act::Invalid),
        1 => (1_u64..4, any::<bool>()).prop_map(|(number, spare)| Act::Age(number, spare)),
        1 => (1_u32..5).prop_map(Act::SetMax),
        1 => (0_u64..20).prop_map(Act::Expire),
    ]
}

/// A pool with its users: active connections, and clients that are nowhere else.
struct Users {
    pool: Pool,
    max: usize,
    idle_min: usize,
    at_work: Vec<(LinkRef, u32)>,
    opening: usize,
    /// Connections that are established and about to be released.
    arriving: Vec<LinkRef>,
    idle: BTreeSet<u64>,
    /// Clients in the queue, in the order in which they should come out.
    queue: VecDeque<(u32, u64)>,
    asked: u32,
    links: u64,
    now_ns: u64,
}

impl Users {
    fn client(&mut self) -> Box<Client> {
        let plan = plan();
        self.asked += 1;
        Box::new(Client::new(self.asked, 0, &plan.groups[0]))
    }

    fn free(&mut self, link: LinkRef) {
        if self.pool.is_over() {
            self.pool.closed();
            return;
        }
        match self.pool.release(link) {
            Some(client) => {
                assert_eq!(self.queue.pop_front().map(|(id, _)| id), Some(client.id));
                self.at_work.push((link, client.id));
            }
            None => assert!(self.idle.insert(link.id)),
        }
    }

    fn invalid(&mut self, index: &prop::sample::Index) {
        let Some((_, id)) = self.take(index) else {
            return;
        };
        let (mut client, deadline_ns) = (self.client(), self.now_ns + 5);
        client.id = id;
        self.pool.lost();
        match self.pool.acquire_again(0, client, deadline_ns) {
            Grant::Link(link, client) => {
                assert!(self.idle.remove(&link.id));
                self.at_work.push((link, client.id));
            }
            Grant::Queued => self.queue.push_front((id, deadline_ns)),
        }
    }

    fn take(&mut self, index: &prop::sample::Index) -> Option<(LinkRef, u32)> {
        let count = self.at_work.len();
        (count > 0).then(|| self.at_work.swap_remove(index.index(count)))
    }

    fn ask(&mut self) {
        let (client, deadline_ns) = (self.client(), self.now_ns + 10);
        let id = client.id;
        match self.pool.acquire(0, client, deadline_ns) {
            Grant::Link(link, client) => {
                assert!(self.idle.remove(&link.id));
                self.at_work.push((link, client.id));
            }
            Grant::Queued => self.queue.push_back((id, deadline_ns)),
        }
    }

    fn expire(&mut self, later_ns: u64) {
        self.now_ns += later_ns;
        while let Some(client) = self.pool.take_expired(self.now_ns) {
            let first = self.queue.pop_front();
            assert!(first.is_some_and(|(id, at)| id == client.id && at <= self.now_ns));
        }
        assert!(
            self.pool
                .next_deadline_ns()
                .is_none_or(|at| at > self.now_ns)
        );
    }

    fn act(&mut self, act: &Act) {
        self.now_ns += 1;
        match act {
            Act::Ask => self.ask(),
            Act::Opened if self.opening > 0 => {
                self.opening -= 1;
                self.pool.opened();
                self.links += 1;
                self.arriving.push(LinkRef {
                    thread: 0,
                    slot: 0,
                    id: self.links,
                });
            }
            Act::Arrived => {
                if let Some(link) = self.arriving.pop() {
                    self.free(link);
                    self.pool.arrived();
                }
            }
            Act::OpeningFailed if self.opening > 0 => {
                self.opening -= 1;
                self.pool.opening_failed();
                self.pool.pause_until(self.now_ns + 3);
            }
            Act::Done(index) => {
                if let Some((link, _)) = self.take(index) {
                    self.free(link);
                }
            }
            Act::PassOn(index) => {
                if let Some((link, id)) = self.take(index) {
                    let (client, deadline_ns) = (self.client(), self.now_ns + 10);
                    self.queue.push_back((client.id, deadline_ns));
                    let next = self.pool.pass_on(client, deadline_ns);
                    assert_eq!(self.queue.pop_front().map(|(id, _)| id), Some(next.id));
                    assert_ne!(next.id, id);
                    self.at_work.push((link, next.id));
                }
            }
            Act::Lost(index) if self.take(index).is_some() => self.pool.lost(),
            Act::Invalid(index) => self.invalid(index),
            Act::Age(number, spare) => {
                while let Some(link) = self.pool.take_old(0, *spare, |l| l.id % number == 0) {
                    assert!(!spare || self.idle.len() > self.idle_min);
                    assert!(self.idle.remove(&link.id) && link.id % number == 0);
                }
            }
            Act::SetMax(max) => {
                self.max = *max as usize;
                self.pool.set_max(Some(*max));
                while let Some(link) = self.pool.take_surplus(0) {
                    assert!(self.idle.remove(&link.id));
                }
            }
            Act::Expire(later_ns) => self.expire(*later_ns),
            _ => {}
        }
        while self.pool.begin_opening(2, self.now_ns).is_some() {
            let wanted = self.queue.len() + self.idle_min.saturating_sub(self.idle.len());
            assert!(self.opening + self.arriving.len() < wanted, "another opens");
            self.opening += 1;
        }
    }

    fn check(&self) {
        assert_eq!(
            self.pool.open,
            self.at_work.len() + self.idle.len() + self.opening + self.arriving.len()
        );

        assert_eq!(self.pool.queue.len(), self.queue.len());
        assert!(
            self.idle.is_empty() || self.queue.is_empty(),
            "one waits beside an idle one"
        );
        let wanted = !self.queue.is_empty() || self.idle.len() < self.idle_min;
        let coming = self.opening + self.arriving.len();
        let stuck = wanted && coming == 0 && self.pool.open < self.max;
        assert!(!stuck || self.pool.opens_at_ns().is_some_and(|at| at > self.now_ns));
        assert!(self.pool.window.is_none_or(|window| window > 0));
    }
}

proptest! {
    #[test]
    fn no_client_is_lost_or_passed_over(
        acts in prop::collection::vec(any_act(), 1..200),
        idle_min in 0_u32..3,
        slow_start: bool,
    ) {
        let mut users = Users {
            pool: Pool::new(Some(2), idle_min, slow_start),
            max: 2,
            idle_min: idle_min as usize,
            at_work: vec![],
            opening: 0,
            arriving: vec![],
            idle: BTreeSet::new(),
            queue: VecDeque::new(),
            asked: 0,
            links: 0,
            now_ns: 0,
        };
        for act in &acts {
            users.act(act);
            users.check();
        }
    }
}
