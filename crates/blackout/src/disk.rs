//! One disk: its image, how fast it is, and whether it is being recorded.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::copying::copy_sparse;
use crate::error::{BlackoutError, failed};
use crate::format::Kind;
use crate::image::punch;
use crate::pace::{Pace, now_ns};
pub use crate::recorder::Recorded;
use crate::recorder::Recorder;

/// A disk. Requests may come from several threads.
pub(crate) struct Disk {
    image: File,
    size_bytes: u64,
    pace: Pace,
    /// Held for reading by each request that changes the disk, so that whoever holds it for writing sees
    /// the disk between two requests.
    recorder: RwLock<Option<Recorder>>,
}

impl Disk {
    pub(crate) fn open(image: &Path, pace: Pace) -> Result<Self, BlackoutError> {
        let cannot = || format!("cannot open the disk's image {}", image.display());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(image)
            .map_err(failed("disk-image", cannot))?;
        let size_bytes = file.metadata().map_err(failed("disk-image", cannot))?.len();
        Ok(Self {
            image: file,
            size_bytes,
            pace,
            recorder: RwLock::new(None),
        })
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Lifts what slows the disk down.
    pub(crate) fn hurry(&self) {
        self.pace.lift();
    }

    /// Reads into `buffer`; less at the end of the disk.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self
                .image
                .read_at(&mut buffer[done..], offset + done as u64)?
            {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset + data.len() as u64 > self.size_bytes {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.pace.write(data.len() as u64);
        let recorder = self.reading();
        let start_ns = now_ns();
        self.image.write_all_at(data, offset)?;
        if let Some(recorder) = &*recorder {
            recorder.record(Kind::Write, start_ns, offset, data.len() as u64, data);
        }
        Ok(())
    }

    /// Makes a range read as zeros.
    pub(crate) fn zero(&self, offset: u64, length: u64) -> io::Result<()> {
        let length = length.min(self.size_bytes.saturating_sub(offset));
        if length == 0 {
            return Ok(());
        }
        let recorder = self.reading();
        let start_ns = now_ns();
        punch(&self.image, offset, length)?;
        if let Some(recorder) = &*recorder {
            recorder.record(Kind::Zero, start_ns, offset, length, &[]);
        }
        Ok(())
    }

    /// A flush. It only takes its time and is recorded: what the disk keeps in a power cut is decided by
    /// the record, and the image need not survive one of this machine.
    pub(crate) fn flush(&self) {
        let recorder = self.reading();
        let start_ns = now_ns();
        self.pace.flush();
        if let Some(recorder) = &*recorder {
            recorder.record(Kind::Flush, start_ns, 0, 0, &[]);
        }
    }

    /// Copies the image to `base` and begins the log, with no request in between.
    pub(crate) fn start_recording(&self, base: &Path, log: &Path) -> Result<(), BlackoutError> {
        let mut recorder = self.writing();
        if recorder.is_some() {
            return Err(BlackoutError::new(
                "disk-log",
                "the disk is already being recorded",
            ));
        }
        let target = File::create_new(base).map_err(failed("disk-image", || {
            format!("cannot make the copy {}", base.display())
        }))?;
        copy_sparse(&self.image, &target, self.size_bytes).map_err(failed("disk-image", || {
            format!("cannot copy the disk to {}", base.display())
        }))?;
        *recorder = Some(Recorder::begin(log, self.size_bytes)?);
        Ok(())
    }

    /// Ends the log; `None` when there is none.
    pub(crate) fn stop_recording(&self) -> Result<Option<Recorded>, BlackoutError> {
        let recorder = self.writing().take();
        recorder.map(Recorder::end).transpose()
    }

    fn reading(&self) -> RwLockReadGuard<'_, Option<Recorder>> {
        self.recorder.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> RwLockWriteGuard<'_, Option<Recorder>> {
        self.recorder
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
