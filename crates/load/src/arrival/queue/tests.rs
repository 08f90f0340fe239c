//! Counts and arrivals of the queue: examples, and a comparison with a simple model.

use proptest::prelude::*;

use super::*;
use crate::arrival::{Process, Profile, Segment};

const MS: u64 = 1_000_000;
const STARTED_NS: u64 = 77 * MS;

fn queue(rate: f64, process: Process, bound: usize, limit_ns: u64, threads: usize) -> Queue {
    let whole = Segment {
        duration_ns: MS,
        rate_from: rate,
        rate_to: rate,
    };
    let arrivals = Arrivals::new(Profile::segments(&[whole], false), process, 3);
    let policy = Policy {
        bound,
        limit_ns,
        mix: Mix::new(vec![3, 0, 1]),
        most: None,
        notes_skips: false,
    };
    Queue::new(arrivals, policy, 5, threads, STARTED_NS)
}

#[test]
fn an_end_bounds_what_becomes_due_and_a_change_of_rate_loses_nothing() {
    let mut queue = queue(1000.0, Process::Constant, 2, 5 * MS, 1);
    queue.left = Some(20);
    let at = |ms: u64| STARTED_NS + ms * MS;
    queue.freed(at(0));
    assert!(matches!(queue.turn(0, 1, at(0)), Turn::Wait(_)));
    queue.set_factor(at(4), 10.0);
    assert!(matches!(queue.turn(0, 1, at(4)), Turn::Start(_)));
    assert!(!queue.is_over(1), "more is due");
    assert!(!queue.is_over(0), "and one is under way");
    let (intended, skipped) = counts(&mut queue, at(1000));
    assert_eq!((intended, skipped), (20, 19));
    queue.freed(at(1000));
    assert_eq!(queue.turn(0, 1, at(1000)), Turn::Nothing);
    assert!(!queue.is_over(0));
    assert!(queue.is_over(1));
}

fn counts(queue: &mut Queue, now_ns: u64) -> (u64, u64) {
    let mut sum = (0, 0);
    queue.take_counts(now_ns, |_, counts| {
        sum.0 += counts.intended;
        sum.1 += counts.skipped;
    });
    sum
}

#[test]
fn what_comes_while_the_only_client_is_busy_is_skipped() {
    // Due at 0.5, 1.5, 2.5 … ms.
    let mut queue = queue(1000.0, Process::Constant, 0, u64::MAX, 1);
    let at = |ms: u64| STARTED_NS + ms * MS;
    queue.freed(at(0));
    let Turn::Wait(first_ns) = queue.turn(0, 1, at(0)) else {
        panic!("nothing to wait for");
    };
    assert_eq!(first_ns, at(0) + MS / 2);
    assert!(matches!(queue.turn(0, 1, first_ns), Turn::Start(a) if a.intended_ns == first_ns));
    assert_eq!(queue.turn(0, 0, first_ns), Turn::Nothing);
    queue.freed(at(10));
    assert_eq!(queue.turn(0, 1, at(10)), Turn::Wait(at(10) + MS / 2));
    assert_eq!(counts(&mut queue, at(10)), (10, 9));
    assert_eq!(queue.unstarted().count(), 0);
}

#[test]
fn a_late_thread_does_not_make_clients_busy() {
    let mut queue = queue(1000.0, Process::Constant, 0, u64::MAX, 1);
    for _ in 0..3 {
        queue.freed(STARTED_NS);
    }
    assert!(matches!(queue.turn(0, 3, STARTED_NS), Turn::Wait(_)));
    // It wakes 5 ms late: 5 are due, and there were clients for 3.
    let now_ns = STARTED_NS + 5 * MS;
    for idle in [3, 2, 1] {
        assert!(matches!(queue.turn(0, idle, now_ns), Turn::Start(_)));
    }
    assert_eq!(counts(&mut queue, now_ns), (5, 2));
}

#[test]
fn the_newest_beyond_the_bound_are_skipped_and_late_ones_too() {
    let mut bounded = queue(1000.0, Process::Constant, 4, u64::MAX, 1);
    assert_eq!(counts(&mut bounded, STARTED_NS + 10 * MS), (10, 6));
    bounded.freed(STARTED_NS + 10 * MS);
    let oldest = bounded.turn(0, 1, STARTED_NS + 10 * MS);
    assert!(matches!(oldest, Turn::Start(a) if a.intended_ns == STARTED_NS + MS / 2));
    let mut limited = queue(1000.0, Process::Constant, 1000, 3 * MS, 1);
    assert_eq!(counts(&mut limited, STARTED_NS + 10 * MS), (10, 7));
    limited.freed(STARTED_NS + 10 * MS);
    let oldest = limited.turn(0, 1, STARTED_NS + 10 * MS);
    assert!(matches!(oldest, Turn::Start(a) if a.intended_ns == STARTED_NS + 7 * MS + MS / 2));
}

#[test]
fn another_thread_takes_what_is_given_back() {
    let mut queue = queue(1000.0, Process::Constant, 10, u64::MAX, 2);
    queue.freed(STARTED_NS);
    assert!(matches!(queue.turn(0, 1, STARTED_NS), Turn::Wait(_)));
    queue.freed(STARTED_NS);
    assert_eq!(
        queue.turn(1, 1, STARTED_NS),
        Turn::Wait(STARTED_NS + MS + MS / 2)
    );
    queue.left(1);
    assert!(queue.give_back(0));
    assert_eq!(
        queue.turn(1, 1, STARTED_NS),
        Turn::Wait(STARTED_NS + MS / 2)
    );
    assert!(!queue.give_back(0));
}

#[test]
fn scripts_come_by_weight() {
    let mut queue = queue(1e6, Process::Poisson, 100_000, u64::MAX, 1);
    queue.catch_up(STARTED_NS + 40 * MS, usize::MAX);
    let mut by_script = [0.0; 3];
    queue
        .unstarted()
        .for_each(|script| by_script[script] += 1.0);
    assert!(
        (by_script[0] / by_script[2] - 3.0_f64).abs() < 0.15,
        "{by_script:?}"
    );
    assert!(by_script[1] == 0.0);
}

#[derive(Debug, Clone)]
enum Act {
    Pass(u64),
    Free(usize),
    Finish(prop::sample::Index),
    Leave(usize),
    Turn(usize),
    Factor(f64),
}

fn any_act(threads: usize) -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0..3 * MS).prop_map(Act::Pass),
        3 => (0..threads).prop_map(Act::Free),
        3 => any::<prop::sample::Index>().prop_map(Act::Finish),
        1 => (0..threads).prop_map(Act::Leave),
        2 => (0..threads).prop_map(Act::Turn),
        1 => prop_oneof![Just(0.0), 0.1_f64..5.0].prop_map(Act::Factor),
    ]
}

/// Threads with clients, as the worker has them.
struct Threads {
    queue: Queue,
    now_ns: u64,
    idle: Vec<usize>,
    wait: Vec<Option<u64>>,
    busy: Vec<usize>,
    started: u64,
    intended: u64,
    skipped: u64,
}

impl Threads {
    fn turn(&mut self, thread: usize) {
        self.wait[thread] = None;
        loop {
            if self.idle[thread] == 0 {
                if self.queue.give_back(thread) {
                    for other in 0..self.idle.len() {
                        if other != thread && self.idle[other] > 0 {
                            self.turn(other);
                        }
                    }
                }
                return;
            }
            match self.queue.turn(thread, self.idle[thread], self.now_ns) {
                Turn::Start(arrival) => {
                    assert!(arrival.intended_ns <= self.now_ns);
                    self.idle[thread] -= 1;
                    self.busy.push(thread);
                    self.started += 1;
                }
                Turn::Wait(at_ns) => {
                    assert!(at_ns > self.now_ns);
                    self.wait[thread] = Some(at_ns);
                    return;
                }
                Turn::Nothing => return,
            }
        }
    }

    /// Time passes, and every timer goes off in its time, at most `late_ns` late.
    fn pass(&mut self, until_ns: u64) {
        while let Some((at_ns, thread)) = (0..self.wait.len())
            .filter_map(|thread| self.wait[thread].map(|at_ns| (at_ns, thread)))
            .min()
            && at_ns <= until_ns
        {
            self.now_ns = self.now_ns.max(at_ns);
            self.turn(thread);
        }
        self.now_ns = until_ns;
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Pass(for_ns) => self.pass(self.now_ns + for_ns),
            Act::Free(thread) => {
                self.queue.freed(self.now_ns);
                self.idle[*thread] += 1;
                self.turn(*thread);
            }
            Act::Finish(index) if !self.busy.is_empty() => {
                let thread = self.busy.swap_remove(index.index(self.busy.len()));
                self.queue.freed(self.now_ns);
                self.idle[thread] += 1;
                self.turn(thread);
            }
            Act::Leave(thread) if self.idle[*thread] > 0 => {
                self.idle[*thread] -= 1;
                self.queue.left(1);
                self.turn(*thread);
            }
            Act::Turn(thread) => self.turn(*thread),
            Act::Factor(factor) => {
                self.queue.set_factor(self.now_ns, *factor);
                (0..self.idle.len()).for_each(|thread| self.turn(thread));
            }
            _ => {}
        }
    }

    fn check(&mut self, bound: usize) {
        let (intended, skipped) = counts(&mut self.queue, self.now_ns);
        self.intended += intended;
        self.skipped += skipped;
        let unstarted = self.queue.unstarted().count();
        assert_eq!(
            self.intended,
            self.skipped + self.started + unstarted as u64
        );
        let idle: usize = self.idle.iter().sum();
        assert_eq!(self.queue.free, idle);
        assert!(unstarted <= bound);
        assert!(
            idle == 0 || unstarted == 0,
            "one waits beside a free client"
        );
        for (thread, idle) in self.idle.iter().enumerate() {
            assert!(*idle > 0 || self.queue.held[thread].is_none());
            assert_eq!(
                self.wait[thread],
                self.queue.held[thread].map(|(held, _)| held.intended_ns)
            );
        }
        // Whoever holds an arrival holds an earlier one than any that nobody holds.
        let soonest = self.queue.soonest();
        for (held, _) in self.queue.held.iter().flatten() {
            assert!(soonest.is_none_or(|soonest| *held <= soonest));
        }
    }
}

proptest! {
    #[test]
    fn every_arrival_goes_somewhere_once(
        acts in prop::collection::vec(any_act(3), 1..150),
        bound in 0_usize..6,
        poisson: bool,
    ) {
        let process = if poisson { Process::Poisson } else { Process::Constant };
        let mut threads = Threads {
            queue: queue(1000.0, process, bound, u64::MAX, 3),
            now_ns: STARTED_NS,
            idle: vec![0; 3],
            wait: vec![None; 3],
            busy: vec![],
            started: 0,
            intended: 0,
            skipped: 0,
        };
        for act in &acts {
            threads.act(act);
            threads.check(bound);
        }
        threads.queue.stop(threads.now_ns);
        threads.now_ns += 1000 * MS;
        threads.wait.fill(None);
        let (intended, skipped) = counts(&mut threads.queue, threads.now_ns);
        prop_assert_eq!((intended, skipped), (0, 0));
        prop_assert_eq!(threads.queue.turn(0, 1, threads.now_ns), Turn::Nothing);
    }
}
