//! The pool that clients of a group share: idle connections, and a queue of clients, first come
//! first served. Threads share it behind a mutex; connections stay with the thread that opened them.

use std::collections::VecDeque;

use crate::client::Client;

/// A connection, by the thread that owns it and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRef {
    /// The owner.
    pub thread: usize,
    /// Index among the owner's connections.
    pub slot: usize,
    /// Unlike the index never used again.
    pub id: u64,
}

/// A client in the queue.
#[derive(Debug)]
pub struct Waiter {
    /// The client, with an open transaction that was not sent yet.
    pub client: Box<Client>,
    /// When it gives up.
    pub deadline_ns: u64,
}

/// What a client that asks for a connection gets.
#[derive(Debug)]
pub enum Grant {
    /// This connection.
    Link(LinkRef, Box<Client>),
    /// A place in the queue.
    Queued,
}

/// A group's pool.
#[derive(Debug)]
pub struct Pool {
    /// Connections at most; `None` when each client holds its own.
    max: Option<usize>,
    /// Connections that exist or are being opened.
    open: usize,
    /// Those of them being opened.
    opening: usize,
    idle: Vec<LinkRef>,
    queue: VecDeque<Waiter>,
    /// No connection is opened before this time, after a failure to open one.
    not_before_ns: u64,
    failures: u32,
    /// Connections lost and not replaced yet.
    lost: usize,
    next_thread: usize,
}

impl Pool {
    /// An empty pool.
    #[must_use]
    pub fn new(max: Option<u32>) -> Self {
        Self {
            max: max.map(|max| max as usize),
            open: 0,
            opening: 0,
            idle: Vec::new(),
            queue: VecDeque::new(),
            not_before_ns: 0,
            failures: 0,
            lost: 0,
            next_thread: 0,
        }
    }

    /// Changes the limit.
    pub fn set_max(&mut self, max: Option<u32>) {
        self.max = max.map(|max| max as usize);
    }

    /// A client asks for a connection: an idle one, of `thread` if possible, or a place in the queue.
    pub fn acquire(&mut self, thread: usize, client: Box<Client>, deadline_ns: u64) -> Grant {
        let near = self.idle.iter().rposition(|link| link.thread == thread);
        let link = match near {
            Some(index) => Some(self.idle.swap_remove(index)),
            None => self.idle.pop(),
        };
        match link {
            Some(link) => Grant::Link(link, client),
            None => {
                self.queue.push_back(Waiter {
                    client,
                    deadline_ns,
                });
                Grant::Queued
            }
        }
    }

    /// A client hands its connection on and asks for one again, in one step.
    /// Whoever is first in the queue gets it; with nobody waiting the client keeps it.
    pub fn pass_on(&mut self, client: Box<Client>, deadline_ns: u64) -> Box<Client> {
        match self.queue.pop_front() {
            Some(first) => {
                self.queue.push_back(Waiter {
                    client,
                    deadline_ns,
                });
                first.client
            }
            None => client,
        }
    }

    /// A connection is free: the client that gets it, if one waits; else it is idle from now on.
    pub fn release(&mut self, link: LinkRef) -> Option<Box<Client>> {
        let first = self.queue.pop_front();
        if first.is_none() {
            self.idle.push(link);
        }
        first.map(|waiter| waiter.client)
    }

    /// Whether there are more connections than allowed, so that a free one must be closed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.max.is_none_or(|max| self.open > max)
    }

    /// Takes a connection out of the idle ones; false if it is not among them (it was granted).
    pub fn take_idle(&mut self, link: LinkRef) -> bool {
        let found = self.idle.iter().position(|other| *other == link);
        found.map(|index| self.idle.swap_remove(index)).is_some()
    }

    /// An idle connection of `thread` that must go because the limit fell.
    pub fn take_surplus(&mut self, thread: usize) -> Option<LinkRef> {
        if !self.is_over() {
            return None;
        }
        let index = self.idle.iter().position(|link| link.thread == thread)?;
        self.open -= 1;
        Some(self.idle.swap_remove(index))
    }

    /// Whether another connection should be opened now; if so it counts as being opened, and the
    /// number of the thread that is to do it is returned.
    pub fn begin_opening(&mut self, threads: usize, now_ns: u64) -> Option<usize> {
        let wanted = self.opening < self.queue.len();
        let allowed = self.max.is_some_and(|max| self.open < max) && now_ns >= self.not_before_ns;
        if !wanted || !allowed {
            return None;
        }
        self.open += 1;
        self.opening += 1;
        self.next_thread = (self.next_thread + 1) % threads;
        Some(self.next_thread)
    }

    /// When waiting clients may have a connection opened for them, if only a pause after a failure
    /// keeps them from it.
    #[must_use]
    pub fn opens_at_ns(&self) -> Option<u64> {
        let waits = self.opening < self.queue.len() && self.max.is_some_and(|max| self.open < max);
        waits.then_some(self.not_before_ns)
    }

    /// A connection was established; true if it replaces one that was lost.
    pub fn opened(&mut self) -> bool {
        self.opening -= 1;
        self.failures = 0;
        self.not_before_ns = 0;
        let replaces = self.lost > 0;
        self.lost -= usize::from(replaces);
        replaces
    }

    /// A connection could not be established: how often in a row, for the length of the pause.
    pub fn opening_failed(&mut self) -> u32 {
        self.opening -= 1;
        self.open -= 1;
        self.failures = self.failures.saturating_add(1);
        self.failures
    }

    /// Nothing is opened before this time.
    pub fn pause_until(&mut self, not_before_ns: u64) {
        self.not_before_ns = not_before_ns;
    }

    /// An established connection was closed.
    pub fn closed(&mut self) {
        self.open -= 1;
    }

    /// An established connection was lost.
    pub fn lost(&mut self) {
        self.open -= 1;
        self.lost += 1;
    }

    /// A client's own connection becomes one of the pool's.
    pub fn adopt(&mut self) {
        self.open += 1;
    }

    /// The first client in the queue that has waited too long.
    pub fn take_expired(&mut self, now_ns: u64) -> Option<Box<Client>> {
        let first = self.queue.front()?;
        if first.deadline_ns > now_ns {
            return None;
        }
        self.queue.pop_front().map(|waiter| waiter.client)
    }

    /// When the first client in the queue gives up.
    #[must_use]
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.queue.front().map(|waiter| waiter.deadline_ns)
    }

    /// Takes the first client out of the queue, whoever it is.
    pub fn take_first(&mut self) -> Option<Box<Client>> {
        self.queue.pop_front().map(|waiter| waiter.client)
    }
}

#[cfg(test)]
mod tests {
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
        OpeningFailed,
        Done(prop::sample::Index),
        PassOn(prop::sample::Index),
        Lost(prop::sample::Index),
        SetMax(u32),
        Expire(u64),
    }

    fn any_act() -> impl Strategy<Value = Act> {
        let index = any::<prop::sample::Index>;
        prop_oneof![
            4 => Just(Act::Ask),
            4 => Just(Act::Opened),
            1 => Just(Act::OpeningFailed),
            4 => index().prop_map(Act::Done),
            4 => index().prop_map(Act::PassOn),
            1 => index().prop_map(Act::Lost),
            1 => (1_u32..5).prop_map(Act::SetMax),
            1 => (0_u64..20).prop_map(Act::Expire),
        ]
    }

    /// A pool with its users: connections at work, and clients that are nowhere else.
    struct Users {
        pool: Pool,
        max: usize,
        at_work: Vec<(LinkRef, u32)>,
        opening: usize,
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

        fn take(&mut self, index: &prop::sample::Index) -> Option<(LinkRef, u32)> {
            let count = self.at_work.len();
            (count > 0).then(|| self.at_work.swap_remove(index.index(count)))
        }

        fn act(&mut self, act: &Act) {
            self.now_ns += 1;
            match act {
                Act::Ask => {
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
                Act::Opened if self.opening > 0 => {
                    self.opening -= 1;
                    self.pool.opened();
                    self.links += 1;
                    self.free(LinkRef {
                        thread: 0,
                        slot: 0,
                        id: self.links,
                    });
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
                Act::SetMax(max) => {
                    self.max = *max as usize;
                    self.pool.set_max(Some(*max));
                    while let Some(link) = self.pool.take_surplus(0) {
                        assert!(self.idle.remove(&link.id));
                    }
                }
                Act::Expire(later_ns) => {
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
                _ => {}
            }
            while self.pool.begin_opening(2, self.now_ns).is_some() {
                self.opening += 1;
            }
        }

        fn check(&self) {
            assert_eq!(
                self.pool.open,
                self.at_work.len() + self.idle.len() + self.opening
            );
            assert_eq!(self.pool.queue.len(), self.queue.len());
            assert!(
                self.idle.is_empty() || self.queue.is_empty(),
                "one waits beside an idle one"
            );
            let stuck = !self.queue.is_empty() && self.opening == 0 && self.pool.open < self.max;
            assert!(!stuck || self.pool.opens_at_ns().is_some_and(|at| at > self.now_ns));
        }
    }

    proptest! {
        #[test]
        fn no_client_is_lost_or_passed_over(acts in prop::collection::vec(any_act(), 1..200)) {
            let mut users = Users {
                pool: Pool::new(Some(2)),
                max: 2,
                at_work: vec![],
                opening: 0,
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
}
