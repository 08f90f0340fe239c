//! The FUSE file system of a disk: a directory with one file, for a loop device.
//!
//! The file is not written through a page cache of its own (no write-back caching), so each write of the
//! loop device comes here before it is answered, and FUSE_FSYNC is the device's flush.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};

use crate::disk::Disk;

/// The file's name.
pub(crate) const FILE_NAME: &str = "disk";
const DIRECTORY: INodeNo = INodeNo(1);
const FILE: INodeNo = INodeNo(2);
/// Nothing ever changes but the data.
const TTL: Duration = Duration::from_secs(3600);
const REQUEST_BYTES_MAX: u32 = 1 << 20;

const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;

thread_local! {
    /// Buffer for reads, kept so that no read allocates.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The file system of one disk.
pub(crate) struct OneFile {
    disk: Arc<Disk>,
    made_at: SystemTime,
}

impl OneFile {
    pub(crate) fn new(disk: Arc<Disk>) -> Self {
        Self {
            disk,
            made_at: SystemTime::now(),
        }
    }

    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let (kind, perm, size) = if ino == DIRECTORY {
            (FileType::Directory, 0o700, 0)
        } else {
            (FileType::RegularFile, 0o600, self.disk.size_bytes())
        };
        FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: self.made_at,
            mtime: self.made_at,
            ctime: self.made_at,
            crtime: self.made_at,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

fn errno(error: &io::Error) -> Errno {
    // fuser logs each request in its own format; a disk logs only this.
    error.raw_os_error().map_or(Errno::EIO, Errno::from_i32)
}

impl Filesystem for OneFile {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A refusal names the nearest value that is possible.
        if let Err(nearest) = config.set_max_write(REQUEST_BYTES_MAX) {
            config
                .set_max_write(nearest)
                .map_err(|_| io::ErrorKind::InvalidInput)?;
        }
        Ok(())
    }

    fn destroy(&mut self) {
        // The mount is gone. An incomplete log is not reported here: it has no end record.
        self.disk.stop_recording().ok();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == DIRECTORY && name == FILE_NAME {
            reply.entry(&TTL, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = [
            (DIRECTORY, FileType::Directory, "."),
            (DIRECTORY, FileType::Directory, ".."),
            (FILE, FileType::RegularFile, FILE_NAME),
        ];
        for (at, (ino, kind, name)) in (1..).zip(entries).skip(offset as usize) {
            if reply.add(ino, at, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        READ_BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size as usize {
                buffer.resize(size as usize, 0);
            }
            match self.disk.read(&mut buffer[..size as usize], offset) {
                Ok(n) => reply.data(&buffer[..n]),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.disk.write(offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.disk.flush() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // A file descriptor was closed; this is no barrier.
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode & (PUNCH_HOLE | ZERO_RANGE) == 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        match self.disk.zero(offset, length) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }
}
