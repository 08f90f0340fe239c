//! The times at which a cut is worth most: with much pending, at the edges of flushes, at given marks.
//! A time drawn at random mostly finds nothing pending, so only a few are.

use std::collections::BTreeMap;

use crate::format::Kind;
use crate::recording::Recording;
use crate::rng::Rng;

/// Largest distance of a cut from its mark.
const AROUND_MARK_NS: u64 = 20_000_000;
/// Number of times that are tried for each cut requested; in the first half of the tries something must be
/// pending.
const TRIES: usize = 16;

/// The reason for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Much is pending: a flush is about to end.
    Pending,
    /// At the beginning, within, just before or at the end of a flush.
    FlushEdge,
    /// At or near a mark.
    Mark,
    /// At random.
    Random,
}

impl Why {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::FlushEdge => "flush-edge",
            Self::Mark => "mark",
            Self::Random => "random",
        }
    }
}

/// A time for a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutTime {
    /// Its time.
    pub at_ns: u64,
    /// The reason for this time.
    pub why: Why,
    /// Writes that are pending then, on all disks.
    pub pending_writes: u64,
    /// Bytes of these.
    pub pending_bytes: u64,
}

struct Ranking<'a> {
    recording: &'a Recording,
    window_ns: (u64, u64),
    rng: Rng,
    chosen: BTreeMap<u64, Why>,
}

pub(crate) fn rank(
    recording: &Recording,
    count: usize,
    seed: u64,
    marks_ns: &[u64],
) -> Vec<CutTime> {
    let mut ranking = Ranking {
        recording,
        window_ns: recording.window_ns(),
        rng: Rng::new(seed, 0),
        chosen: BTreeMap::new(),
    };
    let share = count / 8;
    let marks = if marks_ns.is_empty() { 0 } else { share };
    ranking.add_pending(count - marks - 2 * share);
    ranking.add_marks(marks, marks_ns);
    ranking.add_flush_edges(share);
    ranking.add_random(count);
    ranking.times()
}

impl Ranking<'_> {
    /// Takes a time unless it lies outside or is taken; whether it did.
    fn take(&mut self, at_ns: u64, why: Why) -> bool {
        let (first, last) = self.window_ns;
        let fits = (first..=last).contains(&at_ns) && !self.chosen.contains_key(&at_ns);
        if fits {
            self.chosen.insert(at_ns, why);
        }
        fits
    }

    /// Takes a time as one of several tries; at first only one at which something is pending.
    fn take_loaded(&mut self, at_ns: u64, why: Why, attempt: usize, attempts: usize) -> bool {
        let loaded = attempt >= attempts / 2 || self.recording.pending(at_ns).0 > 0;
        loaded && self.take(at_ns, why)
    }

    /// Just before the ends of the flushes that make most durable, spread over the recording.
    fn add_pending(&mut self, count: usize) {
        let mut times: Vec<(u64, u64)> = self
            .recording
            .disks
            .iter()
            .flat_map(|disk| disk.timeline.flush_ends_ns())
            .map(|end| end.saturating_sub(1))
            .map(|at| (self.recording.pending(at).0, at))
            .filter(|(pending, _)| *pending > 0)
            .collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let (first, last) = self.window_ns;
        let mut apart_ns = (last - first) / (4 * count as u64 + 1);
        let mut left = count;
        while left > 0 && apart_ns > 0 {
            for (_, at) in &times {
                let near = at.saturating_sub(apart_ns)..=at.saturating_add(apart_ns);
                if left > 0 && self.chosen.range(near).next().is_none() {
                    left -= usize::from(self.take(*at, Why::Pending));
                }
            }
            apart_ns /= 4;
        }
    }

    fn add_marks(&mut self, count: usize, marks_ns: &[u64]) {
        let mut left = count;
        let attempts = TRIES * count;
        for attempt in 0..attempts {
            if left == 0 {
                break;
            }
            // The marks themselves and around them, in turn.
            let mark = marks_ns[attempt % marks_ns.len()];
            let at_ns = if (attempt / marks_ns.len()).is_multiple_of(2) {
                mark
            } else {
                mark.saturating_sub(AROUND_MARK_NS) + self.rng.below(2 * AROUND_MARK_NS)
            };
            left -= usize::from(self.take_loaded(at_ns, Why::Mark, attempt, attempts));
        }
    }

    fn add_flush_edges(&mut self, count: usize) {
        let flushes: Vec<(u64, u64)> = self
            .recording
            .disks
            .iter()
            .flat_map(|disk| &disk.log.records)
            .filter(|record| record.entry.kind == Kind::Flush)
            .map(|record| (record.entry.start_ns, record.entry.end_ns))
            .collect();
        if flushes.is_empty() {
            return;
        }
        let mut left = count;
        let attempts = TRIES * count;
        for attempt in 0..attempts {
            if left == 0 {
                break;
            }
            let (start, end) = self.rng.pick(&flushes);
            let within = start + self.rng.below((end - start).max(1));
            let at_ns = self.rng.pick(&[start, within, end.saturating_sub(1), end]);
            left -= usize::from(self.take_loaded(at_ns, Why::FlushEdge, attempt, attempts));
        }
    }

    /// Fills up to `count` in all.
    fn add_random(&mut self, count: usize) {
        let (first, last) = self.window_ns;
        let attempts = TRIES * count;
        for attempt in 0..attempts {
            if self.chosen.len() >= count {
                break;
            }
            let at_ns = first + self.rng.below(last - first + 1);
            self.take_loaded(at_ns, Why::Random, attempt, attempts);
        }
    }

    fn times(self) -> Vec<CutTime> {
        let of = |(at_ns, why): (u64, Why)| {
            let (pending_writes, pending_bytes) = self.recording.pending(at_ns);
            CutTime {
                at_ns,
                why,
                pending_writes,
                pending_bytes,
            }
        };
        self.chosen.into_iter().map(of).collect()
    }
}
