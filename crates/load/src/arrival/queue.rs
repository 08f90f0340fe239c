//! A group's arrivals as its threads share them: who gets which, and what becomes of those that find
//! every client busy.
//!
//! A client that is free takes the first arrival that waits. If none does, its thread *holds* the
//! next one: it sets a timer to it, and gives it to one of its free clients when it is due. A thread
//! holds one arrival at most, however many free clients it has, so that little has to be taken back
//! when the rate changes or clients go. Arrivals come into being when somebody looks, up to the
//! time of that look: they are counted as intended then, wait if there is room, else are skipped.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::process::Arrivals;
use crate::mix::Mix;
use crate::script::Rng;

/// A transaction that is due at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// When, on the monotonic clock.
    pub intended_ns: u64,
    /// Its script, by number in the group.
    pub script: usize,
}

/// What becomes of arrivals that find every client busy, and which scripts they execute.
#[derive(Debug, Clone)]
pub struct Policy {
    /// As many wait; more than that are skipped.
    pub bound: usize,
    /// What is later than this before it starts is skipped.
    pub limit_ns: u64,
    /// The group's scripts.
    pub mix: Mix,
}

/// What was counted of one script since the last time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Arrivals that became due.
    pub intended: u64,
    /// Those that were given up before a client took them.
    pub skipped: u64,
}

/// What a thread with free clients is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// One of them starts this, and the thread asks again.
    Start(Arrival),
    /// Ask again at this time.
    Wait(u64),
    /// Nothing is to come.
    Nothing,
}

/// See the module.
#[derive(Debug)]
pub struct Queue {
    arrivals: Arrivals,
    policy: Policy,
    choice: Rng,
    started_ns: u64,
    /// The next one that nobody holds.
    next: Option<Arrival>,
    /// Not due yet, and given back.
    returned: BinaryHeap<Reverse<Arrival>>,
    /// Due, and nobody had time for them; oldest first.
    waiting: VecDeque<Arrival>,
    /// By thread: the arrival that it holds, and whether it was counted.
    held: Vec<Option<(Arrival, bool)>>,
    /// Clients of all threads that have nothing to do.
    free: usize,
    stopped_ns: Option<u64>,
    counts: Vec<Counts>,
}

impl Queue {
    /// For so many threads; `arrivals` count from `started_ns` on.
    #[must_use]
    pub fn new(
        arrivals: Arrivals,
        policy: Policy,
        seed: u64,
        threads: usize,
        started_ns: u64,
    ) -> Self {
        Self {
            arrivals,
            counts: vec![Counts::default(); policy.mix.scripts()],
            policy,
            choice: Rng::new(seed),
            started_ns,
            next: None,
            returned: BinaryHeap::with_capacity(threads),
            waiting: VecDeque::new(),
            held: vec![None; threads],
            free: 0,
            stopped_ns: None,
        }
    }

    /// Counts what became due up to now, at most so many; false if there is more.
    pub fn catch_up(&mut self, now_ns: u64, most: usize) -> bool {
        let until_ns = self.stopped_ns.unwrap_or(now_ns).min(now_ns);
        for (arrival, counted) in self.held.iter_mut().flatten() {
            if arrival.intended_ns <= until_ns && !*counted {
                *counted = true;
                self.counts[arrival.script].intended += 1;
            }
        }
        for _ in 0..most {
            let Some(arrival) = self
                .soonest()
                .filter(|arrival| arrival.intended_ns <= until_ns)
            else {
                self.skip_late(until_ns);
                return true;
            };
            self.take_soonest();
            self.skip_late(arrival.intended_ns);
            let counts = &mut self.counts[arrival.script];
            counts.intended += 1;
            // Clients that are free, but for those that a held arrival is meant for.
            let holding = self.held.iter().flatten().count();
            if self.waiting.len() < self.policy.bound + self.free.saturating_sub(holding) {
                self.waiting.push_back(arrival);
            } else {
                counts.skipped += 1;
            }
        }
        false
    }

    fn look(&mut self, now_ns: u64) {
        self.catch_up(now_ns, usize::MAX);
    }

    fn skip_late(&mut self, now_ns: u64) {
        while let Some(first) = self.waiting.front()
            && self.is_late(first, now_ns)
        {
            self.counts[first.script].skipped += 1;
            self.waiting.pop_front();
        }
    }

    fn is_late(&self, arrival: &Arrival, now_ns: u64) -> bool {
        now_ns.saturating_sub(arrival.intended_ns) > self.policy.limit_ns
    }

    /// A client has nothing to do from now on. Its thread asks for its [`Queue::turn`] next.
    pub fn freed(&mut self, now_ns: u64) {
        // What came while it was busy must not find it free.
        self.look(now_ns);
        self.free += 1;
    }

    /// So many clients that had nothing to do are gone. Their thread asks for its turn next.
    pub fn left(&mut self, clients: usize) {
        self.free -= clients;
    }

    /// What a thread with `idle` clients that have nothing to do is to do. If one is to start
    /// something, it has something to do from now on.
    pub fn turn(&mut self, thread: usize, idle: usize, now_ns: u64) -> Turn {
        self.look(now_ns);
        if self.stopped_ns.is_some() || idle == 0 {
            return Turn::Nothing;
        }
        if let Some((arrival, true)) = self.held[thread] {
            self.held[thread] = None;
            if !self.is_late(&arrival, now_ns) {
                return self.start(arrival);
            }
            self.counts[arrival.script].skipped += 1;
        }
        if let Some(first) = self.waiting.pop_front() {
            return self.start(first);
        }
        self.hold_soonest(thread);
        match self.held[thread] {
            Some((arrival, _)) => Turn::Wait(arrival.intended_ns),
            None => Turn::Nothing,
        }
    }

    fn start(&mut self, arrival: Arrival) -> Turn {
        self.free -= 1;
        Turn::Start(arrival)
    }

    fn hold_soonest(&mut self, thread: usize) {
        let Some(soonest) = self.soonest() else {
            return;
        };
        match self.held[thread] {
            Some((held, _)) if held <= soonest => {}
            Some((held, _)) => {
                self.take_soonest();
                self.returned.push(Reverse(held));
                self.held[thread] = Some((soonest, false));
            }
            None => {
                self.take_soonest();
                self.held[thread] = Some((soonest, false));
            }
        }
    }

    /// A thread that has no client free gives back what it holds; true if that is something that
    /// clients of other threads wait for.
    pub fn give_back(&mut self, thread: usize) -> bool {
        let Some((arrival, counted)) = self.held[thread].take() else {
            return false;
        };
        if counted {
            let place = self.waiting.partition_point(|other| *other < arrival);
            self.waiting.insert(place, arrival);
        } else {
            self.returned.push(Reverse(arrival));
        }
        self.free > 0
    }

    /// The first arrival that nobody holds and that does not wait.
    fn soonest(&mut self) -> Option<Arrival> {
        if self.next.is_none() && self.stopped_ns.is_none() {
            self.next = self.draw();
        }
        let returned = self.returned.peek().map(|Reverse(arrival)| *arrival);
        match (returned, self.next) {
            (Some(returned), Some(next)) => Some(returned.min(next)),
            (returned, next) => returned.or(next),
        }
    }

    fn take_soonest(&mut self) {
        match (self.returned.peek(), self.next) {
            (Some(Reverse(returned)), next) if next.is_none_or(|next| *returned <= next) => {
                self.returned.pop();
            }
            _ => self.next = None,
        }
    }

    fn draw(&mut self) -> Option<Arrival> {
        let intended_ns = self.started_ns.saturating_add(self.arrivals.next_ns()?);
        let script = self.policy.mix.draw(&mut self.choice);
        Some(Arrival {
            intended_ns,
            script,
        })
    }

    /// The highest rate of the profile, without a factor.
    #[must_use]
    pub fn rate_max(&self) -> f64 {
        self.arrivals.rate_max()
    }

    /// The rate is the profile's times `factor` from now on. All threads ask for their turn next.
    pub fn set_factor(&mut self, now_ns: u64, factor: f64) {
        self.look(now_ns);
        let undone = self.forget_future();
        let elapsed_ns = now_ns.saturating_sub(self.started_ns);
        self.arrivals.set_factor(elapsed_ns, factor, undone);
    }

    /// Nothing becomes due after this time, and nothing is started.
    pub fn stop(&mut self, now_ns: u64) {
        if self.stopped_ns.is_none() {
            self.look(now_ns);
            self.forget_future();
            self.stopped_ns = Some(now_ns);
        }
    }

    /// Drops what is not due yet; how many that was.
    fn forget_future(&mut self) -> usize {
        let mut count = self.returned.len() + usize::from(self.next.take().is_some());
        self.returned.clear();
        for held in &mut self.held {
            if held.take_if(|(_, counted)| !*counted).is_some() {
                count += 1;
            }
        }
        count
    }

    /// What was counted up to now since the last time, by script. Nothing may have been looked at
    /// with a later time.
    pub fn take_counts(&mut self, now_ns: u64, mut take: impl FnMut(usize, Counts)) {
        self.look(now_ns);
        for (script, counts) in self.counts.iter_mut().enumerate() {
            take(script, std::mem::take(counts));
        }
    }

    /// Scripts of what is due and was not started.
    pub fn unstarted(&self) -> impl Iterator<Item = usize> {
        let held = self.held.iter().flatten();
        let held = held.filter(|(_, counted)| *counted).map(|(held, _)| held);
        self.waiting
            .iter()
            .chain(held)
            .map(|arrival| arrival.script)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Process, Profile, Segment};
    use super::*;

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
        };
        Queue::new(arrivals, policy, 5, threads, STARTED_NS)
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
}
