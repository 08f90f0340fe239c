//! pgbench's transaction log: a line for each transaction, or for each interval of some seconds, in
//! the format of version 18.
//!
//! One file per thread, `PREFIX.PID` and `PREFIX.PID.THREAD`. Lines wait in a buffer for at most
//! [`WRITE_EVERY_NS`] and are written by the thread itself; nothing is allocated per transaction.
//! Clients and scripts are numbered through all groups. What an open loop skips before any client took
//! it has the client -1 and is numbered by itself.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::acks::Column;
use crate::config::LogConfig;
use crate::error::LoadError;
use crate::failure::Code;
use crate::plan::{NO_LIMIT_NS, Plan};
use crate::script::Rng;
use crate::sys::monotonic_ns;

/// Lines are written when there are this many bytes of them,
const BUFFER_BYTES: usize = 64 << 10;
/// or when the oldest of them has waited for this long.
const WRITE_EVERY_NS: u64 = 100_000_000;
/// Room for one more line.
const LINE_BYTES: usize = 512;
const US_PER_S: u64 = 1_000_000;

/// A transaction that is over.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its client, by number through all groups; `None` for one that no client took.
    pub client: Option<u32>,
    /// Its number among the client's, from 1.
    pub number: u64,
    /// Its script, by number through all groups.
    pub script: usize,
    /// The end of the transaction.
    pub column: Column,
    /// The error, if it failed.
    pub code: Option<Code>,
    /// Intended → ended.
    pub latency_ns: u64,
    /// Intended → sent.
    pub lag_ns: u64,
    /// Tries after the first.
    pub retries: u32,
    /// Time of its end.
    pub ended_ns: u64,
}

/// The file of one thread.
#[derive(Debug)]
pub struct TransactionLog {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    /// Time by which the oldest line in the buffer must be written.
    due_ns: Option<u64>,
    /// Difference of the wall clock to the monotonic clock.
    epoch_us: u64,
    columns: Columns,
    sampling: Option<(f64, Rng)>,
    sums: Option<Sums>,
}

/// Columns that are there only under some options.
#[derive(Debug, Clone, Copy)]
struct Columns {
    lag: bool,
    skipped: bool,
    retries: bool,
    detailed: bool,
}

impl TransactionLog {
    /// Makes the files of a load's threads; those of the same name are written over, as by pgbench.
    ///
    /// # Errors
    /// The error of a failed write.
    pub fn create_all(config: &LogConfig, plan: &Plan) -> Result<Vec<Self>, LoadError> {
        let pid = std::process::id();
        let create = |thread| {
            let path = PathBuf::from(match thread {
                0 => format!("{}.{pid}", config.prefix),
                _ => format!("{}.{pid}.{thread}", config.prefix),
            });
            Self::create(&path, config, plan, thread).map_err(|error| unwritable(&path, &error))
        };
        (0..plan.threads).map(create).collect()
    }

    fn create(path: &Path, config: &LogConfig, plan: &Plan, thread: usize) -> io::Result<Self> {
        // Never through what exists: in a directory that others may write to, it could be a
        // symbolic link.
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let seed = plan.seed ^ 0xA076_1D64_78BD_642F_u64.wrapping_mul(thread as u64 + 1);
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_us = since.map_or(0, |since| since.as_micros());
        let epoch_us = u64::try_from(now_us)
            .unwrap_or(0)
            .saturating_sub(monotonic_ns() / 1000);
        let every_us = config.aggregate_s.map(|seconds| seconds * US_PER_S);
        let began_us = monotonic_ns() / 1000 + epoch_us;
        Ok(Self {
            path: path.to_owned(),
            file,
            buffer: Vec::with_capacity(BUFFER_BYTES + LINE_BYTES),
            due_ns: None,
            epoch_us,
            columns: Columns {
                lag: plan.groups.iter().any(|group| group.arrival.is_some()),
                skipped: plan
                    .groups
                    .iter()
                    .any(|group| group.latency_limit_ns != NO_LIMIT_NS),
                retries: plan.tries_max != 1,
                detailed: config.failures_detailed,
            },
            sampling: config.sampling_rate.map(|rate| (rate, Rng::new(seed))),
            sums: every_us.map(|every_us| Sums::new(every_us, began_us)),
        })
    }

    /// Adds a transaction. Whoever does so writes at the end of the pass.
    pub fn push(&mut self, entry: &Entry) {
        if let Some((rate, rng)) = &mut self.sampling
            && rng.double() > *rate
        {
            return;
        }
        let now_us = entry.ended_ns / 1000 + self.epoch_us;
        if let Some(sums) = &mut self.sums {
            sums.follow(now_us, self.columns, &mut self.buffer);
            sums.add(entry, self.columns);
        } else {
            write_entry(entry, now_us, self.columns, &mut self.buffer);
        }
        if !self.buffer.is_empty() {
            self.due_ns.get_or_insert(entry.ended_ns + WRITE_EVERY_NS);
        }
    }

    /// Time by which the buffer must be written, if it is not empty.
    #[must_use]
    pub fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// Writes the buffer if it is full or has waited long enough.
    ///
    /// # Errors
    /// As [`TransactionLog::finish`].
    pub fn write_if_due(&mut self, now_ns: u64) -> Result<(), LoadError> {
        match self.due_ns {
            Some(due_ns) if due_ns <= now_ns || self.buffer.len() >= BUFFER_BYTES => self.write(),
            _ => Ok(()),
        }
    }

    /// Writes everything. As in pgbench, an interval that is not over is left out.
    ///
    /// # Errors
    /// The disk is full, for example.
    pub fn finish(&mut self, now_ns: u64) -> Result<(), LoadError> {
        if let Some(sums) = &mut self.sums {
            let now_us = now_ns / 1000 + self.epoch_us;
            sums.follow(now_us, self.columns, &mut self.buffer);
        }
        self.write()
    }

    fn write(&mut self) -> Result<(), LoadError> {
        let written = self.file.write_all(&self.buffer);
        self.buffer.clear();
        self.due_ns = None;
        written.map_err(|error| unwritable(&self.path, &error))
    }
}

/// `client_id transaction_no time script_no time_epoch time_us [schedule_lag] [retries]`.
fn write_entry(entry: &Entry, now_us: u64, columns: Columns, out: &mut Vec<u8>) {
    let client = entry.client.map_or(-1, i64::from);
    // A buffer in memory takes everything.
    let _ = write!(out, "{client} {} ", entry.number);
    let _ = match word(entry, columns.detailed) {
        Some(word) => write!(out, "{word}"),
        None => write!(out, "{}", entry.latency_ns / 1000),
    };
    let (seconds, rest) = (now_us / US_PER_S, now_us % US_PER_S);
    let _ = write!(out, " {} {seconds} {rest}", entry.script);
    if columns.lag {
        let _ = write!(out, " {}", lag_us(entry));
    }
    if columns.retries {
        let _ = write!(out, " {}", entry.retries);
    }
    out.push(b'\n');
}

/// The word in place of the time of a transaction that was not done.
fn word(entry: &Entry, detailed: bool) -> Option<&'static str> {
    match (entry.column, entry.code.as_ref().map(Code::as_str)) {
        (Column::Done, _) => None,
        (Column::Skipped, _) => Some("skipped"),
        (_, Some("40001")) if detailed => Some("serialization"),
        (_, Some("40P01")) if detailed => Some("deadlock"),
        _ => Some("failed"),
    }
}

fn lag_us(entry: &Entry) -> u64 {
    if entry.column == Column::Skipped {
        0
    } else {
        entry.lag_ns / 1000
    }
}

/// Sums of an interval of some seconds.
#[derive(Debug)]
struct Sums {
    every_us: u64,
    /// Start of the interval, by the wall clock.
    began_us: u64,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    done: u64,
    latency: Spread,
    lag: Spread,
    skipped: u64,
    retried: u64,
    retries: u64,
    serialization_failures: u64,
    deadlock_failures: u64,
}

/// Of times in microseconds: sum, sum of squares, least, most.
#[derive(Debug, Default)]
struct Spread {
    count: u64,
    sum: f64,
    squares: f64,
    least: f64,
    most: f64,
}

impl Spread {
    #[allow(clippy::cast_precision_loss)] // 285 years are below 2^53 microseconds
    fn add(&mut self, us: u64) {
        let us = us as f64;
        self.least = if self.count == 0 {
            us
        } else {
            self.least.min(us)
        };
        self.most = self.most.max(us);
        self.count += 1;
        self.sum += us;
        self.squares += us * us;
    }

    fn write(&self, out: &mut Vec<u8>) {
        let Self {
            sum,
            squares,
            least,
            most,
            ..
        } = self;
        let _ = write!(out, " {sum:.0} {squares:.0} {least:.0} {most:.0}");
    }
}

impl Sums {
    fn new(every_us: u64, began_us: u64) -> Self {
        Self {
            every_us,
            began_us,
            counts: Counts::default(),
        }
    }

    /// Writes the intervals that are over, empty ones too.
    fn follow(&mut self, now_us: u64, columns: Columns, out: &mut Vec<u8>) {
        while self.began_us + self.every_us <= now_us {
            self.write(columns, out);
            self.counts = Counts::default();
            self.began_us += self.every_us;
        }
    }

    fn add(&mut self, entry: &Entry, columns: Columns) {
        let counts = &mut self.counts;
        if entry.column == Column::Skipped {
            counts.skipped += 1;
            return;
        }
        counts.retries += u64::from(entry.retries);
        counts.retried += u64::from(entry.retries > 0);
        match word(entry, true) {
            None => {
                counts.done += 1;
                counts.latency.add(entry.latency_ns / 1000);
                if columns.lag {
                    counts.lag.add(lag_us(entry));
                }
            }
            Some("serialization") => counts.serialization_failures += 1,
            Some("deadlock") => counts.deadlock_failures += 1,
            Some(_) => {}
        }
    }

    /// `interval_start num_transactions sum_latency … deadlock_failures`: what an option does not ask
    /// for is 0.
    fn write(&self, columns: Columns, out: &mut Vec<u8>) {
        let counts = &self.counts;
        let only = |wanted: bool, count: u64| if wanted { count } else { 0 };
        let _ = write!(out, "{} {}", self.began_us / US_PER_S, counts.done);
        counts.latency.write(out);
        counts.lag.write(out);
        for (wanted, count) in [
            (columns.skipped, counts.skipped),
            (columns.retries, counts.retried),
            (columns.retries, counts.retries),
            (columns.detailed, counts.serialization_failures),
            (columns.detailed, counts.deadlock_failures),
        ] {
            let _ = write!(out, " {}", only(wanted, count));
        }
        out.push(b'\n');
    }
}

fn unwritable(path: &Path, error: &io::Error) -> LoadError {
    LoadError::new(
        "log-unwritable",
        format!("cannot write the log {}: {error}", path.display()),
    )
    .with_hint("name a writable location with --log-prefix, or leave out -l")
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: Columns = Columns {
        lag: true,
        skipped: true,
        retries: true,
        detailed: true,
    };

    fn entry(column: Column, code: Option<&str>) -> Entry {
        Entry {
            client: Some(3),
            number: 7,
            script: 1,
            column,
            code: code.map(Code::sqlstate),
            latency_ns: 1_234_567,
            lag_ns: 34_999,
            retries: 2,
            ended_ns: 0,
        }
    }

    fn line(entry: &Entry, columns: Columns) -> String {
        let mut out = Vec::new();
        write_entry(entry, 1_700_000_000_000_042, columns, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn lines_are_those_of_pgbench() {
        let done = entry(Column::Done, None);
        let plain = Columns {
            lag: false,
            skipped: false,
            retries: false,
            detailed: false,
        };
        assert_eq!(line(&done, plain), "3 7 1234 1 1700000000 42\n");
        assert_eq!(line(&done, COLUMNS), "3 7 1234 1 1700000000 42 34 2\n");
        let failed = entry(Column::Failed, Some("40001"));
        assert_eq!(line(&failed, plain), "3 7 failed 1 1700000000 42\n");
        assert_eq!(
            line(&failed, COLUMNS),
            "3 7 serialization 1 1700000000 42 34 2\n"
        );
        let skipped = Entry {
            client: None,
            retries: 0,
            ..entry(Column::Skipped, None)
        };
        assert_eq!(
            line(&skipped, COLUMNS),
            "-1 7 skipped 1 1700000000 42 0 0\n"
        );
    }

    #[test]
    fn stretches_are_summed_and_empty_ones_told() {
        let mut sums = Sums::new(2 * US_PER_S, 10 * US_PER_S);
        let mut out = Vec::new();
        for (column, code, latency_ns) in [
            (Column::Done, None, 2_000_000),
            (Column::Done, None, 4_000_000),
            (Column::Failed, Some("40P01"), 1),
            (Column::Failed, Some("23505"), 1),
            (Column::Skipped, None, 1),
        ] {
            let entry = Entry {
                latency_ns,
                ..entry(column, code)
            };
            sums.follow(11 * US_PER_S, COLUMNS, &mut out);
            sums.add(&entry, COLUMNS);
        }
        assert!(out.is_empty());
        sums.follow(15 * US_PER_S, COLUMNS, &mut out);
        let text = String::from_utf8(out).expect("ASCII");
        assert_eq!(
            text,
            "10 2 6000 20000000 2000 4000 68 2312 34 34 1 4 8 0 1\n\
             12 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        );
    }
}
