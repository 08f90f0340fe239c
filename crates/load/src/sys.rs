//! The three questions to the operating system that the standard library does not ask: the
//! monotonic clock as a number, this thread's CPU time, and how long it waited for a CPU.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::mem::MaybeUninit;

/// Nanoseconds of CLOCK_MONOTONIC: the same number that Python's `time.monotonic_ns()` gives.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `time` is valid for writes, and the call fills it whenever it returns 0.
    let time = unsafe {
        if libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr()) != 0 {
            return 0;
        }
        time.assume_init()
    };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// CPU time used so far, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode.
    pub user_us: u64,
    /// In the kernel.
    pub system_us: u64,
}

/// CPU time of the calling thread.
#[must_use]
pub fn thread_cpu() -> CpuTime {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: `usage` is valid for writes, and the call fills it whenever it returns 0.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) != 0 {
            return CpuTime::default();
        }
        usage.assume_init()
    };
    let micros =
        |time: libc::timeval| time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_usec.unsigned_abs();
    CpuTime {
        user_us: micros(usage.ru_utime),
        system_us: micros(usage.ru_stime),
    }
}

/// Reads how long the thread that opened it was runnable without running.
#[derive(Debug)]
pub struct RunQueueDelay {
    file: Option<File>,
}

impl RunQueueDelay {
    /// For the calling thread. Where the kernel keeps no such count, the delay reads 0.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self {
            file: File::open("/proc/thread-self/schedstat").ok(),
        }
    }

    /// Cumulative delay in microseconds: the second figure of schedstat.
    pub fn read_us(&mut self) -> u64 {
        self.try_read().unwrap_or(0)
    }

    fn try_read(&mut self) -> Option<u64> {
        let file = self.file.as_mut()?;
        let mut buffer = [0u8; 96];
        file.seek(SeekFrom::Start(0)).ok()?;
        let length = file.read(&mut buffer).ok()?;
        let text = std::str::from_utf8(&buffer[..length]).ok()?;
        let delay_ns: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(delay_ns / 1000)
    }
}
