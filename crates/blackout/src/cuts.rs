//! Several disks on one clock: what they recorded, a rolling image of each, and power cuts of all.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::cut::Cut;
use crate::error::BlackoutError;
use crate::format::Kind;
use crate::image::Image;
use crate::log::DiskLog;
use crate::outcome::Keep;
use crate::pending::Timeline;
use crate::ranking::{CutTime, rank};
use crate::recording::{DiskRecording, Recording};

/// A disk's recording in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskFacts {
    /// Size of the disk.
    pub disk_bytes: u64,
    /// Writes, and ranges zeroed.
    pub writes: u64,
    /// Bytes written or zeroed.
    pub bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Start of the recording.
    pub first_ns: u64,
    /// Last time at which the state of the disk is known.
    pub last_ns: u64,
    /// True if the recording was broken off.
    pub torn: bool,
}

/// The logs of disks that ran at the same time on one machine.
pub struct DiskLogs {
    recording: Arc<Recording>,
    /// Number of records applied to each rolling image.
    advanced: Mutex<HashMap<(usize, PathBuf), usize>>,
}

impl DiskLogs {
    /// Opens logs; their order numbers the disks.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Self, BlackoutError> {
        let disks = paths
            .iter()
            .map(|path| {
                let log = DiskLog::open(path.as_ref())?;
                let timeline = Timeline::of(&log);
                Ok(DiskRecording { log, timeline })
            })
            .collect::<Result<Vec<_>, BlackoutError>>()?;
        let recording = Recording { disks };
        let (first, last) = recording.window_ns();
        if recording.disks.is_empty() || first > last {
            return Err(BlackoutError::new(
                "disk-log",
                "the recordings of the disks do not overlap in time",
            ));
        }
        Ok(Self {
            recording: Arc::new(recording),
            advanced: Mutex::default(),
        })
    }

    /// Return the recordings, by disk.
    pub fn facts(&self) -> Vec<DiskFacts> {
        self.recording
            .disks
            .iter()
            .map(|disk| facts(&disk.log))
            .collect()
    }

    /// At most `count` times for cuts, in their order; `marks_ns` are times that matter for other reasons.
    pub fn ranked(&self, count: usize, seed: u64, marks_ns: &[u64]) -> Vec<CutTime> {
        rank(&self.recording, count, seed, marks_ns)
    }

    /// The power cut at `at_ns` that a seed decides.
    pub fn cut(
        &self,
        at_ns: u64,
        seed: u64,
        sector_bytes: u32,
        keep: Keep,
    ) -> Result<Cut, BlackoutError> {
        self.recording.check_time(at_ns)?;
        if !matches!(sector_bytes, 512 | 4096) {
            let message = format!("sectors have 512 or 4096 bytes, not {sector_bytes}");
            return Err(BlackoutError::new("cut-invalid", message));
        }
        Ok(Cut::new(
            Arc::clone(&self.recording),
            at_ns,
            seed,
            sector_bytes,
            keep,
        ))
    }

    /// Applies what is durable at `at_ns` to a rolling image, which began as the base image of the disk.
    /// Times only go forward.
    pub fn advance(&self, disk: usize, image: &Path, at_ns: u64) -> Result<(), BlackoutError> {
        self.recording.check_time(at_ns)?;
        let DiskRecording { log, timeline } = self.recording.disk(disk)?;
        let until = timeline.durable_records(at_ns);
        let key = (disk, image.to_owned());
        let mut advanced = self.advanced.lock().unwrap_or_else(PoisonError::into_inner);
        let from = advanced.get(&key).copied().unwrap_or(0);
        if from > until {
            let message = format!("{} is already past {at_ns} ns", image.display());
            return Err(BlackoutError::new("cut-invalid", message).hint(
                "make the cuts in the order of their times, or start again from the base image",
            ));
        }
        apply(log, from..until, image)?;
        advanced.insert(key, until);
        Ok(())
    }
}

fn apply(
    log: &DiskLog,
    records: std::ops::Range<usize>,
    image: &Path,
) -> Result<(), BlackoutError> {
    let image = Image::open(image)?;
    let mut data = Vec::new();
    for record in &log.records[records] {
        let entry = &record.entry;
        match entry.kind {
            Kind::Write => {
                log.read_data(record, &mut data)?;
                image.write(&data, entry.offset)?;
            }
            Kind::Zero => image.zero(entry.offset, entry.length)?,
            Kind::Flush | Kind::End => {}
        }
    }
    Ok(())
}

fn facts(log: &DiskLog) -> DiskFacts {
    let writes = || {
        log.records
            .iter()
            .map(|record| &record.entry)
            .filter(|entry| entry.writes())
    };
    let is_flush = |entry: &&crate::Entry| entry.kind == Kind::Flush;
    DiskFacts {
        disk_bytes: log.disk_bytes,
        writes: writes().count() as u64,
        bytes: writes().map(|entry| entry.length).sum(),
        flushes: log
            .records
            .iter()
            .map(|record| &record.entry)
            .filter(is_flush)
            .count() as u64,
        first_ns: log.opened_ns,
        last_ns: log.ended_ns(),
        torn: log.torn,
    }
}
