//! Changes to image files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};

use crate::error::{BlackoutError, failed};

/// An image that is changed; errors name it.
pub(crate) struct Image<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> Image<'a> {
    /// Opens an image that is there.
    pub(crate) fn open(path: &'a Path) -> Result<Self, BlackoutError> {
        let opened = OpenOptions::new().write(true).open(path);
        let file = opened.map_err(failed("disk-image", || {
            format!("cannot open {}", path.display())
        }))?;
        Ok(Self { path, file })
    }

    /// Writes bytes at an offset.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> Result<(), BlackoutError> {
        self.with_path(self.file.write_all_at(bytes, offset))
    }

    /// Makes a range read as zeros.
    pub(crate) fn zero(&self, offset: u64, length: u64) -> Result<(), BlackoutError> {
        self.with_path(punch(&self.file, offset, length))
    }

    fn with_path(&self, done: io::Result<()>) -> Result<(), BlackoutError> {
        done.map_err(failed("disk-image", || {
            format!("cannot write {}", self.path.display())
        }))
    }
}

/// Makes a range read as zeros and gives its space back, where the file system can.
pub(crate) fn punch(image: &File, offset: u64, length: u64) -> io::Result<()> {
    let flags = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE;
    if fallocate(image, flags, offset, length).is_ok() {
        return Ok(());
    }
    let zeros = vec![0; length.min(1 << 20) as usize];
    let mut done = 0;
    while done < length {
        let part = &zeros[..(length - done).min(zeros.len() as u64) as usize];
        image.write_all_at(part, offset + done)?;
        done += part.len() as u64;
    }
    Ok(())
}
