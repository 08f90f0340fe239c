//! Copies of images: shared with the original where the file system can, else without the holes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, ioctl_ficlone, seek};
use rustix::io::Errno;

const CHUNK_BYTES: u64 = 1 << 20;

/// Copies the first `length` bytes of `from` to the empty file `to`.
pub(crate) fn copy_sparse(from: &File, to: &File, length: u64) -> io::Result<()> {
    if ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    to.set_len(length)?;
    let mut buffer = vec![0; CHUNK_BYTES as usize];
    let mut at = 0;
    while let Some((start, end)) = next_data(from, at, length)? {
        let mut offset = start;
        while offset < end {
            let part = &mut buffer[..(end - offset).min(CHUNK_BYTES) as usize];
            from.read_exact_at(part, offset)?;
            to.write_all_at(part, offset)?;
            offset += part.len() as u64;
        }
        at = end;
    }
    Ok(())
}

/// The next range at or after `at` that is not a hole.
fn next_data(file: &File, at: u64, length: u64) -> io::Result<Option<(u64, u64)>> {
    if at >= length {
        return Ok(None);
    }
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let end = seek(file, SeekFrom::Hole(start))?;
    Ok((start < length).then_some((start, end.min(length))))
}
