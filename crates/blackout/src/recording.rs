//! Recordings of several disks on one clock, and their pending writes at a time.

use crate::error::BlackoutError;
use crate::log::DiskLog;
use crate::pending::Timeline;

/// The recording of a disk.
pub(crate) struct DiskRecording {
    pub log: DiskLog,
    pub timeline: Timeline,
}

/// The recordings of all disks.
pub(crate) struct Recording {
    pub disks: Vec<DiskRecording>,
}

impl Recording {
    pub(crate) fn disk(&self, disk: usize) -> Result<&DiskRecording, BlackoutError> {
        self.disks.get(disk).ok_or_else(|| {
            let count = self.disks.len();
            BlackoutError::new(
                "cut-invalid",
                format!("there is no disk {disk}, but {count} in all"),
            )
        })
    }

    /// The first and the last time at which it is known what happened to every disk.
    pub(crate) fn window_ns(&self) -> (u64, u64) {
        let logs = || self.disks.iter().map(|disk| &disk.log);
        let first = logs().map(|log| log.opened_ns).max().unwrap_or(0);
        let last = logs().map(DiskLog::ended_ns).min().unwrap_or(0);
        (first, last)
    }

    /// Number of writes, and of their bytes, that are pending on all disks.
    pub(crate) fn pending(&self, at_ns: u64) -> (u64, u64) {
        self.disks.iter().fold((0, 0), |(writes, bytes), disk| {
            let (more, more_bytes) = disk.timeline.pending(at_ns);
            (writes + more, bytes + more_bytes)
        })
    }

    /// The writes of a disk that are pending, by their places in its log.
    pub(crate) fn pending_writes(&self, disk: usize, at_ns: u64) -> Vec<usize> {
        let DiskRecording { log, timeline } = &self.disks[disk];
        let begun = |at: &usize| {
            let entry = &log.records[*at].entry;
            entry.writes() && entry.start_ns <= at_ns
        };
        timeline.begun(at_ns).filter(begun).collect()
    }

    pub(crate) fn check_time(&self, at_ns: u64) -> Result<(), BlackoutError> {
        let (first, last) = self.window_ns();
        if (first..=last).contains(&at_ns) {
            return Ok(());
        }
        Err(BlackoutError::new(
            "cut-invalid",
            format!("a cut at {at_ns} ns lies outside of the recording, {first} to {last} ns"),
        ))
    }
}
