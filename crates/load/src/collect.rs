//! Collects the threads' counts of each interval until it is over on all of them.

use std::collections::VecDeque;

use crate::arrival::Counts;
use crate::tally::Tally;

/// Spare tallies kept for reuse, per thread.
const SPARE_PER_THREAD: usize = 1;

/// Intervals on their way from the threads to who polls for them.
#[derive(Debug)]
pub struct Collector {
    threads: usize,
    first: u64,
    pending: VecDeque<Pending>,
    spare: Vec<Tally>,
    /// By row: what waits unsent after the end, for the last interval.
    final_backlog: Option<Vec<u64>>,
    closed: bool,
}

#[derive(Debug)]
struct Pending {
    started_ns: u64,
    ended_ns: Option<u64>,
    tag: Option<i64>,
    clients: Vec<u32>,
    arrivals: Vec<(usize, Counts)>,
    parts: Vec<(usize, Tally)>,
}

/// An interval that is over, with what each thread counted in it.
#[derive(Debug)]
pub struct Finished {
    /// Monotonic clock, in nanoseconds.
    pub started_ns: u64,
    /// Monotonic clock, in nanoseconds.
    pub ended_ns: u64,
    /// The tag passed to [`Collector::end_interval`].
    pub tag: Option<i64>,
    /// By group: clients at its end.
    pub clients: Vec<u32>,
    /// Of open loops: rows, and what became due.
    pub arrivals: Vec<(usize, Counts)>,
    /// By thread.
    pub parts: Vec<(usize, Tally)>,
    /// With the last interval of all, by row: transactions that were never sent.
    pub waiting: Option<Vec<u64>>,
}

impl Collector {
    /// For a load that starts now, whose first interval carries `tag`.
    #[must_use]
    pub fn new(threads: usize, started_ns: u64, tag: Option<i64>) -> Self {
        let mut pending = VecDeque::new();
        pending.push_back(Pending::new(started_ns, tag));
        Self {
            threads,
            first: 0,
            pending,
            spare: Vec::new(),
            final_backlog: None,
            closed: false,
        }
    }

    /// Ends the current interval and begins the next; returns the new one's number.
    pub fn end_interval(&mut self, now_ns: u64, tag: Option<Option<i64>>) -> u64 {
        if self.closed {
            return self.first + self.pending.len() as u64 - 1;
        }
        let mut next_tag = None;
        if let Some(current) = self.pending.back_mut() {
            current.ended_ns = Some(now_ns);
            next_tag = current.tag;
        }
        self.pending
            .push_back(Pending::new(now_ns, tag.unwrap_or(next_tag)));
        self.first + self.pending.len() as u64 - 1
    }

    /// Start of the current interval.
    #[must_use]
    pub fn current_started_ns(&self) -> u64 {
        self.pending.back().map_or(0, |current| current.started_ns)
    }

    /// A tally that is zero, if one is spare.
    pub fn take_spare(&mut self) -> Option<Tally> {
        self.spare.pop()
    }

    /// A thread's counts of an interval.
    pub fn submit(&mut self, number: u64, thread: usize, tally: Tally, clients: &[u32]) {
        let index = number
            .checked_sub(self.first)
            .and_then(|index| usize::try_from(index).ok());
        if let Some(pending) = index.and_then(|index| self.pending.get_mut(index)) {
            pending.clients = clients.to_vec();
            pending.parts.push((thread, tally));
        }
    }

    /// Add the transactions of this row's script that became due in the current interval (open loop).
    pub fn count_arrivals(&mut self, row: usize, counts: Counts) {
        if let Some(current) = self.pending.back_mut() {
            current.arrivals.push((row, counts));
        }
    }

    /// At the very end: adds transactions that were never sent, by row, found by looking at each
    /// client that is left.
    pub fn add_waiting(&mut self, waiting: &[u64]) {
        let sum = self
            .final_backlog
            .get_or_insert_with(|| vec![0; waiting.len()]);
        for (sum, count) in sum.iter_mut().zip(waiting) {
            *sum += count;
        }
    }

    /// From now on the current interval is the last.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Ends the last interval of all.
    pub fn finish(&mut self, now_ns: u64) {
        if let Some(current) = self.pending.back_mut() {
            current.ended_ns = Some(now_ns);
        }
    }

    /// The next interval that is over on all threads.
    pub fn take_finished(&mut self) -> Option<Finished> {
        let first = self.pending.front()?;
        if first.parts.len() < self.threads {
            return None;
        }
        let ended_ns = first.ended_ns?;
        let pending = self.pending.pop_front()?;
        self.first += 1;
        let is_last = self.closed && self.pending.is_empty();
        Some(Finished {
            started_ns: pending.started_ns,
            ended_ns,
            tag: pending.tag,
            clients: pending.clients,
            arrivals: pending.arrivals,
            parts: pending.parts,
            waiting: self.final_backlog.take_if(|_| is_last),
        })
    }

    /// Tallies that are of no more use, for reuse.
    pub fn give_back(&mut self, tallies: impl IntoIterator<Item = Tally>) {
        let room = (SPARE_PER_THREAD * self.threads).saturating_sub(self.spare.len());
        self.spare.extend(tallies.into_iter().take(room));
    }
}

impl Pending {
    fn new(started_ns: u64, tag: Option<i64>) -> Self {
        Self {
            started_ns,
            ended_ns: None,
            tag,
            clients: Vec::new(),
            arrivals: Vec::new(),
            parts: Vec::new(),
        }
    }
}
