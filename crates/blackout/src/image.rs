//! Changes to image files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};

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
