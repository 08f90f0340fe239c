//! A disk: its image, its speed, and its recording.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::io::Errno;

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
    /// Held for reading by each request that changes the disk, so that a holder for writing sees the disk
    /// between two requests.
    recorder: RwLock<Option<Recorder>>,
    failed: AtomicBool,
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
            failed: AtomicBool::new(false),
        })
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Removes the flush delay and the bandwidth limit.
    pub(crate) fn hurry(&self) {
        self.pace.lift();
    }

    /// Answers each request from now on with EIO, once those under way have ended; the image stays.
    pub(crate) fn fail(&self) {
        let _between_requests = self.writing();
        self.failed.store(true, Ordering::Release);
    }

    /// Reads into `buffer`; less at the end of the disk.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.alive()?;
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
        let recorder = self.changing()?;
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
        let recorder = self.changing()?;
        let start_ns = now_ns();
        punch(&self.image, offset, length)?;
        if let Some(recorder) = &*recorder {
            recorder.record(Kind::Zero, start_ns, offset, length, &[]);
        }
        Ok(())
    }

    /// A flush. It only takes its time and is recorded: what the disk keeps in a power cut is decided by
    /// the record, and the image need not survive one of this machine.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let recorder = self.changing()?;
        let start_ns = now_ns();
        self.pace.flush();
        if let Some(recorder) = &*recorder {
            recorder.record(Kind::Flush, start_ns, 0, 0, &[]);
        }
        Ok(())
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

    /// Begins a request that changes the disk, if it has not failed.
    fn changing(&self) -> io::Result<RwLockReadGuard<'_, Option<Recorder>>> {
        let recorder = self.recorder.read().unwrap_or_else(PoisonError::into_inner);
        self.alive().map(|()| recorder)
    }

    fn alive(&self) -> io::Result<()> {
        if self.failed.load(Ordering::Acquire) {
            return Err(Errno::IO.into());
        }
        Ok(())
    }

    fn writing(&self) -> RwLockWriteGuard<'_, Option<Recorder>> {
        self.recorder
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::thread;
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;
    use crate::log::DiskLog;

    const SIZE_BYTES: u64 = 1 << 20;

    fn disk(directory: &TempDir) -> Disk {
        let image = directory.path().join("image");
        let file = File::create(&image).unwrap();
        file.set_len(SIZE_BYTES).unwrap();
        Disk::open(&image, Pace::new(Duration::ZERO, None)).unwrap()
    }

    #[test]
    fn a_recording_begins_with_the_disk_as_it_is() {
        let directory = TempDir::new().unwrap();
        let disk = disk(&directory);
        let path = |name: &str| directory.path().join(name);
        disk.write(4096, &[1; 4096]).unwrap();
        disk.start_recording(&path("base"), &path("log")).unwrap();
        disk.write(8192, &[2; 512]).unwrap();
        disk.zero(4096, 512).unwrap();
        disk.flush().unwrap();
        let mut base = vec![0; SIZE_BYTES as usize];
        base[4096..8192].fill(1);
        assert_eq!(fs::read(path("base")).unwrap(), base);
        let held_bytes = fs::metadata(path("base")).unwrap().blocks() * 512;
        assert!(held_bytes < SIZE_BYTES / 2, "the copy has no holes");
        let again = disk.start_recording(&path("base2"), &path("log2"));
        assert_eq!(again.unwrap_err().code, "disk-log");
        let recorded = disk.stop_recording().unwrap().unwrap();
        assert_eq!(
            (recorded.writes, recorded.bytes, recorded.flushes),
            (2, 1024, 1)
        );
        disk.write(0, &[3; 512]).unwrap();
        let log = DiskLog::open(&path("log")).unwrap();
        let kinds: Vec<Kind> = log.records.iter().map(|it| it.entry.kind).collect();
        assert_eq!(kinds, [Kind::Write, Kind::Zero, Kind::Flush, Kind::End]);
        assert_eq!(disk.stop_recording().unwrap(), None);
    }

    #[test]
    fn writes_of_several_threads_are_logged_in_the_order_of_their_ends() {
        let directory = TempDir::new().unwrap();
        let disk = disk(&directory);
        let log = directory.path().join("log");
        disk.start_recording(&directory.path().join("base"), &log)
            .unwrap();
        thread::scope(|scope| {
            for thread in 0..4_u8 {
                let disk = &disk;
                scope.spawn(move || {
                    for turn in 0..250_u64 {
                        let offset = (u64::from(thread) * 250 + turn) * 512;
                        disk.write(offset, &[thread + 1; 512]).unwrap();
                    }
                });
            }
        });
        assert_eq!(disk.stop_recording().unwrap().unwrap().writes, 1000);
        let log = DiskLog::open(&log).unwrap();
        let times: Vec<(u64, u64)> = log
            .records
            .iter()
            .map(|it| (it.entry.start_ns, it.entry.end_ns))
            .collect();
        assert!(times.iter().all(|(start, end)| start <= end));
        assert!(times.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        let mut data = Vec::new();
        for record in log.records.iter().filter(|it| it.entry.writes()) {
            log.read_data(record, &mut data).unwrap();
            let thread = record.entry.offset / 512 / 250;
            assert_eq!(data, [thread as u8 + 1; 512]);
        }
    }

    #[test]
    fn a_log_without_space_is_said_to_be_incomplete() {
        let directory = TempDir::new().unwrap();
        let disk = disk(&directory);
        // /dev/full accepts no data. It exists, so the log is opened here, not by `Recorder::begin`.
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        *disk.writing() = Some(Recorder::on(full).unwrap());
        disk.write(0, &[1; 512]).unwrap();
        assert_eq!(disk.stop_recording().unwrap_err().code, "disk-log");
        let mut held = [0; 512];
        disk.read(&mut held, 0).unwrap();
        assert_eq!(held, [1; 512]);
    }

    #[test]
    fn a_failed_disk_does_nothing_and_keeps_what_it_had() {
        let directory = TempDir::new().unwrap();
        let disk = disk(&directory);
        disk.write(0, &[1; 512]).unwrap();
        disk.fail();
        let mut buffer = [9; 512];
        let refused = [
            disk.read(&mut buffer, 0).unwrap_err(),
            disk.write(0, &[2; 512]).unwrap_err(),
            disk.zero(0, 512).unwrap_err(),
            disk.flush().unwrap_err(),
        ];
        let numbers = refused.map(|error| error.raw_os_error());
        assert_eq!(numbers, [Some(Errno::IO.raw_os_error()); 4]);
        assert_eq!(buffer, [9; 512]);
        assert_eq!(
            fs::read(directory.path().join("image")).unwrap()[..512],
            [1; 512]
        );
    }

    #[test]
    fn nothing_is_written_past_the_end() {
        let directory = TempDir::new().unwrap();
        let disk = disk(&directory);
        assert!(disk.write(SIZE_BYTES - 511, &[1; 512]).is_err());
        disk.zero(SIZE_BYTES - 512, 4096).unwrap();
        assert_eq!(disk.image.metadata().unwrap().len(), SIZE_BYTES);
        let mut buffer = [9; 1024];
        assert_eq!(disk.read(&mut buffer, SIZE_BYTES - 512).unwrap(), 512);
    }
}
