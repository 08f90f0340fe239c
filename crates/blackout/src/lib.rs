//! The recording disk, and the power cuts made from its records. It does not depend on Python.
//!
//! ```text
//! DiskServer (server.rs)  a FUSE file system with one file, the disk; a loop device makes a block device of it
//! Disk (disk.rs)          its image, what slows it down (pace.rs), and whether it is being recorded
//! Recorder (recorder.rs)  the thread that writes the log (format.rs), so that the disk does not wait for it
//! DiskLog (log.rs)        a log read back: an index in memory, the data left in the file
//! Recording (recording.rs) several logs on one clock, and what is pending when (pending.rs)
//! DiskLogs (cuts.rs)      a rolling image of each, and cuts at any time
//! Cut (cut.rs, outcome.rs) a power cut: the outcome of each sector that was not yet durable
//! ranking.rs              the times at which a cut is worth most
//! ```
//!
//! Times are nanoseconds of the monotonic clock. A write is *durable* at T when it ended before the start
//! of a flush that ended by T; it is *pending* when it began by T and is not durable.

mod copying;
mod cut;
mod cuts;
mod disk;
mod error;
mod filesystem;
mod format;
mod image;
mod log;
mod outcome;
mod pace;
mod pending;
mod ranking;
mod recorder;
mod recording;
mod rng;
mod server;

pub use cut::{Cut, CutFacts, Sector};
pub use cuts::{DiskFacts, DiskLogs};
pub use disk::Recorded;
pub use error::BlackoutError;
pub use format::{Entry, Kind, LogWriter};
pub use outcome::{Keep, Outcome};
pub use ranking::{CutTime, Why};
pub use server::DiskServer;
