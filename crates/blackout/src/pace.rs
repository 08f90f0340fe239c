//! The clock, and what makes a disk slow: a time for each flush, a limit on what is written per second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Credit for sleeping too long, so that the limit is reached and not only kept.
const BURST_NS: u64 = 2_000_000;

/// Nanoseconds of CLOCK_MONOTONIC.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The speed limits of a disk.
pub(crate) struct Pace {
    flush: Duration,
    write_bytes_per_s: Option<u64>,
    free_at_ns: Mutex<u64>,
    lifted: AtomicBool,
}

impl Pace {
    pub(crate) fn new(flush: Duration, write_bytes_per_s: Option<u64>) -> Self {
        Self {
            flush,
            write_bytes_per_s,
            free_at_ns: Mutex::new(0),
            lifted: AtomicBool::new(false),
        }
    }

    /// Makes the disk as fast as possible from now on, so that unmounting it takes no time.
    pub(crate) fn lift(&self) {
        self.lifted.store(true, Ordering::Relaxed);
    }

    fn is_lifted(&self) -> bool {
        self.lifted.load(Ordering::Relaxed)
    }

    /// Waits as long as a flush takes on this disk.
    pub(crate) fn flush(&self) {
        if !self.flush.is_zero() && !self.is_lifted() {
            thread::sleep(self.flush);
        }
    }

    /// Waits until the disk has taken so many bytes.
    pub(crate) fn write(&self, bytes: u64) {
        let Some(per_s) = self.write_bytes_per_s.filter(|_| !self.is_lifted()) else {
            return;
        };
        let now = now_ns();
        let mut free_at = self
            .free_at_ns
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let cost = (u128::from(bytes) * 1_000_000_000 / u128::from(per_s)) as u64;
        *free_at = (*free_at).max(now.saturating_sub(BURST_NS)) + cost;
        let wait_ns = free_at.saturating_sub(now);
        drop(free_at);
        thread::sleep(Duration::from_nanos(wait_ns));
    }
}
