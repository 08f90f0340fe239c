//! A group's arrivals as its threads share them: their assignment to clients, and the handling of
//! those that find every client busy.
//!
//! A client that is free takes the first arrival that waits. If none does, its thread *holds* the
//! next one: it sets a timer to it, and gives it to one of its free clients when it is due. A thread
//! holds one arrival at most, however many free clients it has, so that little has to be taken back
//! when the rate changes or clients go. Arrivals are created when the queue is used, up to the time
//! of that use: they are counted as intended then, wait if there is room, else are skipped.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::process::Arrivals;
use crate::mix::Mix;
use crate::script::Rng;

/// A transaction that is due at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// Time on the monotonic clock.
    pub intended_ns: u64,
    /// Its script, by number in the group.
    pub script: usize,
}

/// The handling of arrivals that find every client busy, and the scripts that they execute.
#[derive(Debug, Clone)]
pub struct Policy {
    /// As many wait; more than that are skipped.
    pub bound: usize,
    /// Transactions later than this before their start are skipped.
    pub limit_ns: u64,
    /// The group's scripts.
    pub mix: Mix,
    /// So many become due in all; `None` is no end.
    pub most: Option<u64>,
    /// True if what is skipped is kept for [`Queue::take_skips`].
    pub notes_skips: bool,
}

/// A transaction that was given up before a client took it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skip {
    /// Its script, by number in the group.
    pub script: usize,
    /// Time at which it was given up.
    pub at_ns: u64,
    /// Its number among those of the group, from 1.
    pub number: u64,
}

/// Counts of one script since the last time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Arrivals that became due.
    pub intended: u64,
    /// Those that were given up before a client took them.
    pub skipped: u64,
}

/// The next action of a thread whose number of free clients is not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Start this transaction, then ask again.
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
    /// The next one that no thread holds.
    next: Option<Arrival>,
    /// Not due yet, and given back.
    returned: BinaryHeap<Reverse<Arrival>>,
    /// Due, and no client was free for them; oldest first.
    waiting: VecDeque<Arrival>,
    /// By thread: the arrival that it holds, and whether it was counted.
    held: Vec<Option<(Arrival, bool)>>,
    /// Clients of all threads that have nothing to do.
    free: usize,
    /// Number of arrivals still to be drawn, if there is an end.
    left: Option<u64>,
    /// Transactions that clients have taken.
    started: u64,
    stopped_ns: Option<u64>,
    counts: Vec<Counts>,
    skipped: u64,
    skips: Vec<Skip>,
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
            left: policy.most,
            started: 0,
            policy,
            choice: Rng::new(seed),
            started_ns,
            next: None,
            returned: BinaryHeap::with_capacity(threads),
            waiting: VecDeque::new(),
            held: vec![None; threads],
            free: 0,
            stopped_ns: None,
            skipped: 0,
            skips: Vec::new(),
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
            self.counts[arrival.script].intended += 1;
            // Clients that are free, except those that a held arrival is meant for.
            let holding = self.held.iter().flatten().count();
            if self.waiting.len() < self.policy.bound + self.free.saturating_sub(holding) {
                self.waiting.push_back(arrival);
            } else {
                self.skip(arrival.script, arrival.intended_ns);
            }
        }
        false
    }

    fn look(&mut self, now_ns: u64) {
        self.catch_up(now_ns, usize::MAX);
    }

    fn skip_late(&mut self, now_ns: u64) {
        while let Some(first) = self.waiting.front().copied()
            && self.is_late(&first, now_ns)
        {
            self.skip(first.script, now_ns);
            self.waiting.pop_front();
        }
    }

    fn skip(&mut self, script: usize, at_ns: u64) {
        self.counts[script].skipped += 1;
        self.skipped += 1;
        if self.policy.notes_skips {
            let number = self.skipped;
            self.skips.push(Skip {
                script,
                at_ns,
                number,
            });
        }
    }

    /// Return the transactions skipped since the last call, if they are recorded.
    pub fn take_skips(&mut self) -> Vec<Skip> {
        std::mem::take(&mut self.skips)
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

    /// Decide what a thread with `idle` idle clients does next. If one of them starts a transaction,
    /// it counts as busy from now on.
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
            self.skip(arrival.script, now_ns);
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
        self.started += 1;
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

    /// The first arrival that no thread holds and that does not wait.
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
        if self.left == Some(0) {
            return None;
        }
        let intended_ns = self.started_ns.saturating_add(self.arrivals.next_ns()?);
        self.left = self.left.map(|left| left - 1);
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
        self.left = self.left.map(|left| left + undone as u64);
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

    /// True if everything has become due, and nothing waits: what is not over is with the clients,
    /// of which so many transactions have ended.
    #[must_use]
    pub fn is_over(&self, ended: u64) -> bool {
        self.left == Some(0)
            && self.next.is_none()
            && self.returned.is_empty()
            && self.held.iter().all(Option::is_none)
            && self.waiting.is_empty()
            && self.started == ended
    }

    /// Hand over the counts by script since the last call. No call before may have had a later
    /// `now_ns`.
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
mod tests;
