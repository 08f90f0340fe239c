//! Memory that the kernel receives into: a ring of buffers that all sockets of a thread share, so
//! that ten thousand idle connections hold none.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

/// Buffers in the ring; a power of 2.
const BUFFERS: u16 = 512;
/// Bytes of one. Answers to writes are short; longer ones take several.
const BUFFER_BYTES: usize = 2048;
const ENTRIES_BYTES: usize = BUFFERS as usize * size_of::<BufRingEntry>();
const MAPPED_BYTES: usize = ENTRIES_BYTES + BUFFERS as usize * BUFFER_BYTES;
/// The group's number; there is one.
pub(super) const GROUP: u16 = 0;

/// The ring of buffers.
pub(super) struct Buffers {
    /// The ring's entries, then the buffers; mapped, so that it begins at a page.
    memory: NonNull<u8>,
    tail: u16,
}

// SAFETY: the memory belongs to this value alone, and only `&mut self` gives access to it; the
// kernel writes to buffers that were handed to it and not yet received back.
unsafe impl Send for Buffers {}

impl Buffers {
    /// All buffers handed to the kernel.
    pub(super) fn register(submitter: &Submitter<'_>) -> io::Result<Self> {
        // SAFETY: a new anonymous mapping; it overlaps nothing.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                MAPPED_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut buffers = Self { memory, tail: 0 };
        // SAFETY: the address is that of a whole page with room for all entries, and stays mapped
        // as long as this value, which outlives the ring (see `Completion`).
        unsafe {
            submitter.register_buf_ring_with_flags(memory.as_ptr() as u64, BUFFERS, GROUP, 0)?;
        }
        for id in 0..BUFFERS {
            buffers.hand_over(id);
        }
        Ok(buffers)
    }

    /// Copies out what the kernel received into a buffer, and hands it over again.
    pub(super) fn take(&mut self, id: u16, length: usize, out: &mut [u8]) -> usize {
        let length = length.min(BUFFER_BYTES).min(out.len());
        // SAFETY: `id` came from the kernel, so it is one of ours, and the kernel does not touch the
        // buffer until it is handed over below. `length` lies within both.
        unsafe {
            let buffer = self.buffer(id % BUFFERS);
            std::ptr::copy_nonoverlapping(buffer, out.as_mut_ptr(), length);
        }
        self.hand_over(id % BUFFERS);
        length
    }

    /// Lets the kernel use a buffer.
    pub(super) fn hand_over(&mut self, id: u16) {
        let index = usize::from(self.tail % BUFFERS);
        let entries = self.memory.as_ptr().cast::<BufRingEntry>();
        // SAFETY: `index` is below the number of entries, and the kernel reads an entry only after
        // the tail has moved past it, which the release store orders. The tail lies in the first
        // entry, in a field that entries do not use.
        unsafe {
            let entry = &mut *entries.add(index);
            entry.set_addr(self.buffer(id) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(entries).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    fn buffer(&self, id: u16) -> *mut u8 {
        // SAFETY: `id` is below the number of buffers, so the address lies within the mapping.
        unsafe {
            self.memory
                .as_ptr()
                .add(ENTRIES_BYTES + usize::from(id) * BUFFER_BYTES)
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: mapped by `register` with this length; nothing refers to it any more.
        unsafe {
            libc::munmap(self.memory.as_ptr().cast(), MAPPED_BYTES);
        }
    }
}
