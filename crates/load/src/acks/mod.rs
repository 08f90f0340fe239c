//! The ack ledger: the clients' own record of how each transaction ended, kept outside the server.
//!
//! It contains every transaction that a client had, except those that are waiting or active when
//! the load, or the process, ends. One append-only file per thread: a header that describes the
//! records, and records of one size. A record is complete or absent: the file's length shows the
//! incomplete last record of a killed process, an outcome of 0 that of a crashed machine. Records wait in
//! a buffer for at most [`WRITE_EVERY_NS`] and are written by the thread itself; nothing is allocated
//! per transaction.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::client::Client;
use crate::error::LoadError;
use crate::failure::Code;
use crate::plan::Plan;
use crate::sys::monotonic_ns;

/// First bytes of a file.
const MAGIC: [u8; 8] = *b"pgdynoAL";
const VERSION: u32 = 1;
/// Length of a record.
const RECORD_BYTES: usize = 64;
/// The header is filled up to a multiple of this.
const HEADER_ALIGN: usize = 64;
/// Records are written when there are this many bytes of them,
const BUFFER_BYTES: usize = 64 << 10;
/// or when the oldest of them has waited for this long.
const WRITE_EVERY_NS: u64 = 100_000_000;

/// The outcome of a transaction on the server, as far as its client can know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The server acknowledged all of it.
    Acked = 1,
    /// The transaction under way had no effect. Earlier commits of the script are counted in
    /// [`crate::client::Progress::commits`].
    Failed = 2,
    /// The connection ended while something was active that could commit: the outcome is unknown.
    Unknown = 3,
    /// Nothing of it ever left.
    Unsent = 4,
}

/// The column of the ledger in which a transaction is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Ended well.
    Done = 1,
    /// Ended with an error.
    Failed = 2,
    /// Given up before it was sent.
    Skipped = 3,
    /// Cut off at the end of the load.
    Cancelled = 4,
}

/// The end of a transaction.
#[derive(Debug, Clone, Copy)]
pub struct Ending {
    /// On the server.
    pub outcome: Outcome,
    /// In the ledger.
    pub column: Column,
    /// The error, if it failed.
    pub code: Option<Code>,
    /// Its time.
    pub ended_ns: u64,
}

/// The file of one thread.
#[derive(Debug)]
pub struct AckFile {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    /// Records so far.
    count: u32,
    /// Time by which the oldest record in the buffer must be written.
    due_ns: Option<u64>,
}

impl AckFile {
    /// Makes the files of a load's threads in `directory`, which is made if it is not there. Files of
    /// earlier loads stay.
    ///
    /// # Errors
    /// The error of a failed write.
    pub fn create_all(directory: &Path, plan: &Plan) -> Result<Vec<Self>, LoadError> {
        fs::create_dir_all(directory).map_err(|error| unwritable(directory, &error))?;
        let clock = Clock::read();
        let create = |thread| {
            let path = directory.join(format!("{:020}-{thread}.acks", clock.unix_ns));
            Self::create(&path, plan, thread, &clock).map_err(|error| unwritable(&path, &error))
        };
        (0..plan.threads).map(create).collect()
    }

    fn create(path: &Path, plan: &Plan, thread: usize, clock: &Clock) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(path)?;
        file.write_all(&header(plan, thread, clock))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            buffer: Vec::with_capacity(BUFFER_BYTES + RECORD_BYTES),
            count: 0,
            due_ns: None,
        })
    }

    /// Adds a client's transaction, of the script in row `row`. Whoever does so writes at the end of
    /// the pass.
    pub fn push(&mut self, client: &Client, row: usize, ending: &Ending) {
        let progress = &client.progress;
        let sqlstate = match ending.code {
            Some(Code::Sqlstate(sqlstate)) => sqlstate,
            _ => [0; 5],
        };
        let buffer = &mut self.buffer;
        buffer.extend_from_slice(&client.txn.to_le_bytes());
        buffer.extend_from_slice(&client.intended_ns.to_le_bytes());
        buffer.extend_from_slice(&client.sent_ns.to_le_bytes());
        buffer.extend_from_slice(&progress.commit_sent_ns.to_le_bytes());
        buffer.extend_from_slice(&ending.ended_ns.to_le_bytes());
        buffer.extend_from_slice(&client.id.to_le_bytes());
        buffer.extend_from_slice(&u32::try_from(row).unwrap_or(u32::MAX).to_le_bytes());
        buffer.extend_from_slice(&self.count.to_le_bytes());
        let tries = u16::try_from(client.tries).unwrap_or(u16::MAX);
        buffer.extend_from_slice(&tries.to_le_bytes());
        buffer.extend_from_slice(&progress.statements.to_le_bytes());
        buffer.extend_from_slice(&[ending.outcome as u8, ending.column as u8]);
        buffer.extend_from_slice(&sqlstate);
        buffer.push(progress.commits);
        self.count = self.count.wrapping_add(1);
        self.due_ns.get_or_insert(ending.ended_ns + WRITE_EVERY_NS);
    }

    /// Time by which the buffer must be written, if it is not empty.
    #[must_use]
    pub fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// Writes the buffer if it is full or has waited long enough.
    ///
    /// # Errors
    /// As [`AckFile::write`].
    pub fn write_if_due(&mut self, now_ns: u64) -> Result<(), LoadError> {
        match self.due_ns {
            Some(due_ns) if due_ns <= now_ns || self.buffer.len() >= BUFFER_BYTES => self.write(),
            _ => Ok(()),
        }
    }

    /// Writes the buffer.
    ///
    /// # Errors
    /// The disk is full, for example. The file ends with a whole record as far as that can be had.
    pub fn write(&mut self) -> Result<(), LoadError> {
        let written = self.file.write_all(&self.buffer);
        self.buffer.clear();
        self.due_ns = None;
        written.map_err(|error| unwritable(&self.path, &error))
    }
}

/// The two clocks, read together.
struct Clock {
    monotonic_ns: u64,
    unix_ns: u64,
}

impl Clock {
    fn read() -> Self {
        let before_ns = monotonic_ns();
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let after_ns = monotonic_ns();
        let unix_ns = since.map_or(0, |since| since.as_nanos());
        Self {
            monotonic_ns: before_ns + (after_ns - before_ns) / 2,
            unix_ns: u64::try_from(unix_ns).unwrap_or(u64::MAX),
        }
    }
}

/// Magic, version, length of a record, length of all this; then JSON, and spaces up to the length.
fn header(plan: &Plan, thread: usize, clock: &Clock) -> Vec<u8> {
    let text = description(plan, thread, clock).to_string();
    let fixed = MAGIC.len() + 3 * size_of::<u32>();
    let length = (fixed + text.len()).next_multiple_of(HEADER_ALIGN);
    let mut bytes = MAGIC.to_vec();
    for number in [VERSION as usize, RECORD_BYTES, length] {
        bytes.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
    }
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(length, b' ');
    bytes
}

fn description(plan: &Plan, thread: usize, clock: &Clock) -> serde_json::Value {
    let groups = plan.groups.iter();
    let scripts = groups.flat_map(|group| {
        group.scripts.iter().map(|script| {
            json!({
                "row": script.row,
                "group": group.name,
                "script": script.script.name,
                "statements": script.script.statements().count(),
            })
        })
    });
    json!({
        "thread": thread,
        "threads": plan.threads,
        "seed": plan.seed,
        "pid": std::process::id(),
        "label": plan.acks.as_ref().and_then(|acks| acks.label),
        "clock": {"monotonic_ns": clock.monotonic_ns, "unix_ns": clock.unix_ns},
        "scripts": scripts.collect::<Vec<_>>(),
        "outcomes": {"acked": 1, "failed": 2, "unknown": 3, "unsent": 4},
        "columns": {"done": 1, "failed": 2, "skipped": 3, "cancelled": 4},
        "fields": [
            ["txn", "<u8", 0],
            ["intended_ns", "<u8", 8],
            ["sent_ns", "<u8", 16],
            ["commit_sent_ns", "<u8", 24],
            ["ended_ns", "<u8", 32],
            ["client", "<u4", 40],
            ["row", "<u4", 44],
            ["number", "<u4", 48],
            ["tries", "<u2", 52],
            ["statements", "<u2", 54],
            ["outcome", "u1", 56],
            ["column", "u1", 57],
            ["sqlstate", "S5", 58],
            ["commits", "u1", 63],
        ],
    })
}

fn unwritable(path: &Path, error: &io::Error) -> LoadError {
    LoadError::new(
        "acks-unwritable",
        format!("cannot write the ack ledger {}: {error}", path.display()),
    )
    .with_hint(
        "the load stops, because acknowledged transactions must be recorded; free some \
                space, or name another directory",
    )
}
