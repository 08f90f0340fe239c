//! Writes the log beside the disk's work: a request is copied into a buffer, a thread writes the buffers
//! out in large pieces. When that thread falls behind, the disk waits for it: nothing is left out.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::error::{BlackoutError, failed};
use crate::format::{Entry, Kind, LogWriter, encode};
use crate::pace::now_ns;

/// Handed to the thread at once when so much has come together; else after `FLUSH_EVERY`.
const PIECE_BYTES: usize = 2 << 20;
const BUFFER_BYTES_MAX: usize = 64 << 20;
const FLUSH_EVERY: Duration = Duration::from_millis(100);

/// Counts of a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Writes and ranges zeroed.
    pub writes: u64,
    /// Bytes that the writes carried.
    pub bytes: u64,
    /// Flushes.
    pub flushes: u64,
}

#[derive(Default)]
struct State {
    buffer: Vec<u8>,
    recorded: Recorded,
    closing: bool,
    failure: Option<String>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    room: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A recording that goes on.
pub(crate) struct Recorder {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl Recorder {
    /// Begins a log at `path`, which must not exist yet.
    pub(crate) fn begin(path: &Path, disk_bytes: u64) -> Result<Self, BlackoutError> {
        let out = File::create_new(path)
            .and_then(|file| LogWriter::new(file, disk_bytes, now_ns()))
            .map_err(failed("disk-log", || {
                format!("cannot create the log {}", path.display())
            }))?
            .into_inner();
        Self::on(out)
    }

    /// Goes on with a log that has been begun.
    pub(crate) fn on(out: File) -> Result<Self, BlackoutError> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("disk-log".into())
            .spawn(move || write_out(&of_thread, out))
            .map_err(failed("disk-log", || {
                "cannot start the log's thread".into()
            }))?;
        Ok(Self { shared, thread })
    }

    /// Records that a request, taken up at `start_ns`, is done now.
    pub(crate) fn record(&self, kind: Kind, start_ns: u64, offset: u64, length: u64, data: &[u8]) {
        let crc = crc32fast::hash(data);
        let mut state = self.shared.lock();
        while state.buffer.len() > BUFFER_BYTES_MAX && state.failure.is_none() {
            state = self
                .shared
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.failure.is_some() {
            return;
        }
        // Under the lock, so that the log is in the order of its times.
        let end_ns = now_ns();
        let entry = Entry {
            kind,
            start_ns,
            end_ns,
            offset,
            length,
        };
        count(&mut state.recorded, &entry);
        state.buffer.extend_from_slice(&encode(&entry, crc));
        state.buffer.extend_from_slice(data);
        if state.buffer.len() >= PIECE_BYTES {
            self.shared.work.notify_one();
        }
    }

    /// Ends the log and waits until it is written.
    pub(crate) fn end(self) -> Result<Recorded, BlackoutError> {
        self.record(Kind::End, now_ns(), 0, 0, &[]);
        self.shared.lock().closing = true;
        self.shared.work.notify_one();
        let panicked = self.thread.join().is_err();
        let state = self.shared.lock();
        match &state.failure {
            Some(why) => Err(incomplete(why)),
            None if panicked => Err(incomplete("its thread panicked")),
            None => Ok(state.recorded),
        }
    }
}

fn incomplete(why: &str) -> BlackoutError {
    BlackoutError::new(
        "disk-log",
        format!("the log of the disk is incomplete: {why}"),
    )
    .hint("no power cut can be made from it; check the free space for the disk's directory")
}

fn count(recorded: &mut Recorded, entry: &Entry) {
    match entry.kind {
        Kind::Write | Kind::Zero => {
            recorded.writes += 1;
            recorded.bytes += entry.length;
        }
        Kind::Flush => recorded.flushes += 1,
        Kind::End => {}
    }
}

/// The thread: takes the whole buffer, leaves an empty one of the same size, writes.
fn write_out(shared: &Shared, mut out: File) {
    let mut piece = Vec::new();
    loop {
        let mut state = shared.lock();
        if state.buffer.len() < PIECE_BYTES && !state.closing {
            let waited = shared.work.wait_timeout(state, FLUSH_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut state.buffer, &mut piece);
        let last = state.closing;
        drop(state);
        shared.room.notify_all();
        if let Err(error) = out.write_all(&piece) {
            shared.lock().failure = Some(error.to_string());
            shared.room.notify_all();
            return;
        }
        piece.clear();
        if last {
            return;
        }
    }
}
