//! System calls that the standard library lacks: the monotonic clock as a number,
//! this thread's CPU time, its CPU and its priority, how long it waited for a CPU, more open files, a
//! bell that wakes another thread, an alarm to the nanosecond, and locks that outlive a panic.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after another thread panicked with the lock held: its counts may then be short by
/// one, which is better than to stop the load.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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

/// Lets this process have as many open files as it may: each connection is one, and the usual limit
/// of 1024 is only a default.
pub fn raise_open_files() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writes in the first call and for reads in the second.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Binds the calling thread to one CPU.
///
/// # Errors
/// There is no such CPU, or this process may not use it.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: all zero is an empty set; `cpu` lies within it; the call only reads it.
    let outcome = unsafe {
        libc::CPU_SET(cpu, set.assume_init_mut());
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set.as_ptr())
    };
    succeeded(outcome)
}

/// Gives the calling thread a nice level: -20 is first, 19 last.
///
/// # Errors
/// Levels below the current one are not for everybody.
pub fn set_nice(level: i32) -> io::Result<()> {
    // SAFETY: no pointer is passed. 0 is the calling thread, as Linux has a level for each.
    succeeded(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, level) })
}

/// Has the calling thread's waits end when they should: by default the kernel may let them take 50 µs
/// longer.
pub fn sharpen_timers() {
    // SAFETY: no pointer is passed; the effect is on the calling thread's timers alone.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0_u64, 0_u64, 0_u64);
    }
}

fn succeeded(outcome: libc::c_int) -> io::Result<()> {
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Wakes a thread that waits for its descriptor to become readable.
#[derive(Debug)]
pub struct Bell(File);

impl Bell {
    /// Silent.
    ///
    /// # Errors
    /// The system's limit of open files.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointer is passed; a descriptor that is not negative is new and ours alone.
        let fd = unsafe {
            let fd = libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Self(File::from(fd)))
    }

    /// Rings, until it is silenced.
    pub fn ring(&self) {
        // It can fail only when it has rung 2^64 times already.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }

    /// Stops ringing.
    pub fn silence(&self) {
        // It can fail only when it does not ring.
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl AsRawFd for Bell {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A timer that makes a file descriptor readable. Waiting for events with a time-out would round up
/// to milliseconds, and every pause of a client with it.
#[derive(Debug)]
pub struct Alarm {
    fd: OwnedFd,
    at_ns: Option<u64>,
}

impl Alarm {
    /// Not set.
    ///
    /// # Errors
    /// The system's limit of open files.
    pub fn new() -> io::Result<Self> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: no pointer is passed; a descriptor that is not negative is new and ours alone.
        let fd = unsafe {
            let fd = libc::timerfd_create(libc::CLOCK_MONOTONIC, flags);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Self { fd, at_ns: None })
    }

    /// Goes off at this time, at once if it is past; or not at all.
    pub fn set(&mut self, at_ns: Option<u64>) {
        if self.at_ns == at_ns {
            return;
        }
        // All zero would mean not at all.
        let value_ns = at_ns.map_or(0, |at_ns| at_ns.max(1));
        let value = libc::timespec {
            tv_sec: libc::time_t::try_from(value_ns / 1_000_000_000).unwrap_or(libc::time_t::MAX),
            tv_nsec: (value_ns % 1_000_000_000).cast_signed(),
        };
        let interval = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let setting = libc::itimerspec {
            it_interval: interval,
            it_value: value,
        };
        // SAFETY: the descriptor is open, `setting` is valid for reads, and null is allowed for the
        // old setting.
        unsafe {
            libc::timerfd_settime(
                self.fd.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &raw const setting,
                std::ptr::null_mut(),
            );
        }
        self.at_ns = at_ns;
    }
}

impl AsRawFd for Alarm {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
