//! A disk on a mount point, for as long as it is mounted.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fuser::{Config, MountOption, Session};
use serde::Deserialize;

use crate::disk::{Disk, Recorded};
use crate::error::{BlackoutError, failed};
use crate::filesystem::OneFile;
use crate::pace::Pace;

/// Requests of a loop device come one after the other; the second is for reads past the page cache.
const THREADS: usize = 2;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    image: PathBuf,
    mount_point: PathBuf,
    #[serde(default)]
    flush_ms: f64,
    #[serde(default)]
    write_bytes_per_s: Option<u64>,
}

impl Asked {
    fn pace(&self) -> Result<Pace, BlackoutError> {
        let flush = Duration::try_from_secs_f64(self.flush_ms / 1e3)
            .map_err(|error| invalid(format!("flush_ms: {error}")))?;
        if self.write_bytes_per_s == Some(0) {
            return Err(invalid("write_bytes_per_s must be above 0".into()));
        }
        Ok(Pace::new(flush, self.write_bytes_per_s))
    }
}

fn invalid(message: String) -> BlackoutError {
    BlackoutError::new("config-invalid", message)
}

/// A mounted disk: `MOUNT_POINT/disk`.
pub struct DiskServer {
    disk: Arc<Disk>,
    session: Mutex<Option<Session<OneFile>>>,
}

impl DiskServer {
    /// Mounts what a JSON object describes: `image`, `mount_point`, `flush_ms`, `write_bytes_per_s`.
    pub fn mount(config_json: &str) -> Result<Self, BlackoutError> {
        let asked: Asked =
            serde_json::from_str(config_json).map_err(|error| invalid(error.to_string()))?;
        let disk = Arc::new(Disk::open(&asked.image, asked.pace()?)?);
        let mut options = Config::default();
        options.mount_options = vec![
            MountOption::FSName("pgdyno".into()),
            MountOption::Subtype("pgdyno".into()),
            MountOption::NoDev,
            MountOption::NoSuid,
            MountOption::NoExec,
        ];
        options.n_threads = Some(THREADS);
        let file_system = OneFile::new(Arc::clone(&disk));
        let session = Session::new(file_system, &asked.mount_point, &options)
            .map_err(failed("disk-mount", || {
                format!("cannot mount a disk at {}", asked.mount_point.display())
            }))?;
        Ok(Self {
            disk,
            session: Mutex::new(Some(session)),
        })
    }

    /// Serves the disk until it is unmounted; then a recording has ended too.
    pub fn serve(&self) -> Result<(), BlackoutError> {
        let session = self
            .session
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let session = session
            .ok_or_else(|| BlackoutError::new("disk-mount", "the disk is served already"))?;
        session
            .run()
            .map_err(failed("disk-mount", || "the disk failed".into()))
    }

    /// Makes the disk as fast as it can be from now on.
    pub fn hurry(&self) {
        self.disk.hurry();
    }

    /// Makes the disk answer everything with EIO from now on, as one that is lost.
    pub fn fail(&self) {
        self.disk.fail();
    }

    /// Makes `base` a copy of the disk as it is and records to `log` from then on.
    pub fn start_recording(&self, base: &Path, log: &Path) -> Result<(), BlackoutError> {
        self.disk.start_recording(base, log)
    }

    /// Ends the recording, with the log written; `None` when there was none.
    pub fn stop_recording(&self) -> Result<Option<Recorded>, BlackoutError> {
        self.disk.stop_recording()
    }
}
