//! This process's CPU time.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// CPU time in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpu {
    pub user_s: f64,
    pub system_s: f64,
}

impl Cpu {
    /// Return the CPU time of this process, with all its threads.
    pub fn now() -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: `usage` is valid for writes, and the call fills it whenever it returns 0.
        let usage = unsafe {
            if libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) != 0 {
                return Self::default();
            }
            usage.assume_init()
        };
        #[allow(clippy::cast_precision_loss)]
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Self {
            user_s: seconds(usage.ru_utime),
            system_s: seconds(usage.ru_stime),
        }
    }

    /// Return the CPU time since then.
    pub fn since(self, before: Self) -> Self {
        Self {
            user_s: self.user_s - before.user_s,
            system_s: self.system_s - before.system_s,
        }
    }
}
