//! The durable and the pending writes of a log at a time.

use crate::log::DiskLog;

/// A log's writes by time.
pub(crate) struct Timeline {
    /// Of each flush, in the order of their ends: its end, and the latest start of a flush that ended by then.
    flushes: Vec<(u64, u64)>,
    ends_ns: Vec<u64>,
    /// The earliest start of this record and all after it.
    starts_from_here_ns: Vec<u64>,
    by_end: Sums,
    by_start: Sums,
}

/// Writes in the order of one of their times, with the bytes of all up to each.
#[derive(Default)]
struct Sums {
    times_ns: Vec<u64>,
    bytes: Vec<u64>,
}

impl Sums {
    fn of(mut writes: Vec<(u64, u64)>) -> Self {
        writes.sort_unstable();
        let mut sums = Self::default();
        let mut sum = 0;
        for (time_ns, bytes) in writes {
            sum += bytes;
            sums.times_ns.push(time_ns);
            sums.bytes.push(sum);
        }
        sums
    }

    /// Writes and bytes whose time is at most `until_ns`.
    fn until(&self, until_ns: u64) -> (u64, u64) {
        let count = self.times_ns.partition_point(|time| *time <= until_ns);
        (
            count as u64,
            count.checked_sub(1).map_or(0, |last| self.bytes[last]),
        )
    }
}

impl Timeline {
    pub(crate) fn of(log: &DiskLog) -> Self {
        let entries = || log.records.iter().map(|record| &record.entry);
        let mut latest_start = 0;
        let flushes = entries()
            .filter(|entry| entry.kind == crate::Kind::Flush)
            .map(|flush| {
                latest_start = latest_start.max(flush.start_ns);
                (flush.end_ns, latest_start)
            })
            .collect();
        let mut earliest = u64::MAX;
        let mut starts: Vec<u64> = entries()
            .rev()
            .map(|entry| {
                earliest = earliest.min(entry.start_ns);
                earliest
            })
            .collect();
        starts.reverse();
        let writes = || entries().filter(|entry| entry.writes());
        Self {
            flushes,
            ends_ns: entries().map(|entry| entry.end_ns).collect(),
            starts_from_here_ns: starts,
            by_end: Sums::of(writes().map(|w| (w.end_ns, w.length)).collect()),
            by_start: Sums::of(writes().map(|w| (w.start_ns, w.length)).collect()),
        }
    }

    /// End of each flush.
    pub(crate) fn flush_ends_ns(&self) -> impl Iterator<Item = u64> {
        self.flushes.iter().map(|(end, _)| *end)
    }

    /// Writes that ended by this time are durable at `at_ns`.
    fn durable_ns(&self, at_ns: u64) -> u64 {
        let ended = self.flushes.partition_point(|(end, _)| *end <= at_ns);
        ended.checked_sub(1).map_or(0, |last| self.flushes[last].1)
    }

    /// Number of the log's records, from the first, that are durable at `at_ns`.
    pub(crate) fn durable_records(&self, at_ns: u64) -> usize {
        let until = self.durable_ns(at_ns);
        self.ends_ns.partition_point(|end| *end <= until)
    }

    /// The records that are pending at `at_ns`, by their places in the log; flushes may be among them.
    pub(crate) fn begun(&self, at_ns: u64) -> impl Iterator<Item = usize> {
        (self.durable_records(at_ns)..self.ends_ns.len())
            .take_while(move |at| self.starts_from_here_ns[*at] <= at_ns)
    }

    /// Number of writes, and of their bytes, that are pending at `at_ns`.
    pub(crate) fn pending(&self, at_ns: u64) -> (u64, u64) {
        let (begun, begun_bytes) = self.by_start.until(at_ns);
        let (durable, durable_bytes) = self.by_end.until(self.durable_ns(at_ns));
        (begun - durable, begun_bytes - durable_bytes)
    }
}
