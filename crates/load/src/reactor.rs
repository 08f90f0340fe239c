//! Sockets of a worker thread, as events: received, sent and closed.
//!
//! Two ways to the same [`Event`]s. [`readiness`] asks the kernel which sockets are ready (mio) and
//! works everywhere. [`completion`] has the kernel do the work and hears of the results (io_uring):
//! all that a pass of the loop sends costs one system call, and so does all that it receives.
//! A worker uses both in the same way.

#[cfg(target_os = "linux")]
mod buffers;
#[cfg(target_os = "linux")]
mod completion;
mod readiness;
mod stream;
#[cfg(target_os = "linux")]
mod tag;

use std::io;
use std::sync::Arc;

use serde::Deserialize;

use crate::sys::Bell;
use readiness::Readiness;
pub use stream::Stream;

/// Bytes that one [`Event::Received`] brings at most: what the caller's buffer must hold.
pub const RECEIVE_BYTES_MAX: usize = 64 << 10;

/// Which way is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum Wanted {
    /// `io_uring` where the kernel allows it, else `mio`.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// Readiness.
    #[serde(rename = "mio")]
    Mio,
    /// Completion.
    #[serde(rename = "io_uring")]
    IoUring,
}

/// Which way was taken, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// `mio` or `io_uring`.
    pub name: &'static str,
    /// In words.
    pub why: String,
}

/// A reactor, and the bell that wakes its thread.
type Belled = (Reactor, Arc<Bell>);

/// An event of a socket; the number is the one that it was opened with.
#[derive(Debug)]
pub enum Event {
    /// The bell was rung.
    Rung,
    /// An attempt to connect has ended.
    Connected(usize, io::Result<()>),
    /// So many bytes came; they are at the start of the caller's buffer.
    Received(usize, usize),
    /// Everything that was to be sent, and had to wait, is sent.
    Drained(usize),
    /// The other side has closed the connection, or it broke.
    Closed(usize, Option<io::Error>),
}

/// The sockets of one thread.
pub struct Reactor(Kind);

enum Kind {
    Readiness(Readiness),
    #[cfg(target_os = "linux")]
    Completion(Box<completion::Completion>),
}

impl Reactor {
    /// For each of `threads` threads one that is woken by a bell of its own, all of the same kind.
    ///
    /// # Errors
    /// The system's limits, or the requested kind is not available here.
    pub fn for_threads(wanted: Wanted, threads: usize) -> io::Result<(Vec<Belled>, Choice)> {
        let why = match wanted {
            Wanted::Mio => "asked for".to_owned(),
            Wanted::Auto | Wanted::IoUring => match with_completion(threads) {
                Ok(reactors) => {
                    let why = if wanted == Wanted::Auto {
                        "the kernel allows it"
                    } else {
                        "asked for"
                    };
                    return Ok((reactors, choice("io_uring", why)));
                }
                Err(error) if wanted == Wanted::IoUring => return Err(error),
                Err(error) => format!("io_uring is not available: {error}"),
            },
        };
        let one = |_| {
            let bell = Arc::new(Bell::new()?);
            let reactor = Readiness::new(Arc::clone(&bell))?;
            Ok((Self(Kind::Readiness(reactor)), bell))
        };
        let reactors = (0..threads).map(one).collect::<io::Result<Vec<_>>>()?;
        Ok((reactors, choice("mio", &why)))
    }

    /// To be called once by the thread that uses it from then on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn settle(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Readiness(_) => Ok(()),
            #[cfg(target_os = "linux")]
            Kind::Completion(inner) => inner.settle(),
        }
    }

    /// Takes over a socket that is connecting; [`Event::Connected`] tells when it is done.
    ///
    /// # Errors
    /// The system's limit of watches.
    pub fn open(&mut self, slot: usize, stream: Stream) -> io::Result<()> {
        match &mut self.0 {
            Kind::Readiness(inner) => inner.open(slot, stream),
            #[cfg(target_os = "linux")]
            Kind::Completion(inner) => {
                inner.open(slot, stream);
                Ok(())
            }
        }
    }

    /// Sends, after what waits to be sent already. What the socket does not take is kept, and
    /// [`Event::Drained`] tells when it has gone. A socket that is broken shows by
    /// [`Event::Closed`], after what the server had still to say.
    pub fn send(&mut self, slot: usize, bytes: &[u8]) {
        match &mut self.0 {
            Kind::Readiness(inner) => inner.send(slot, bytes),
            #[cfg(target_os = "linux")]
            Kind::Completion(inner) => inner.send(slot, bytes),
        }
    }

    /// Bytes that the socket did not take yet.
    #[must_use]
    pub fn unsent_bytes(&self, slot: usize) -> usize {
        match &self.0 {
            Kind::Readiness(inner) => inner.unsent_bytes(slot),
            #[cfg(target_os = "linux")]
            Kind::Completion(inner) => inner.unsent_bytes(slot),
        }
    }

    /// Closes a socket, with some last bytes if it takes them. Nothing is heard of it afterwards.
    pub fn close(&mut self, slot: usize, farewell: &[u8]) {
        match &mut self.0 {
            Kind::Readiness(inner) => inner.close(slot, farewell),
            #[cfg(target_os = "linux")]
            Kind::Completion(inner) => inner.close(slot, farewell),
        }
    }

    /// Waits for events, until the given time of the monotonic clock or for as long as it takes. A
    /// time that is past only looks.
    ///
    /// # Errors
    /// The kernel's queue is gone.
    pub fn wait(&mut self, until_ns: Option<u64>) -> io::Result<()> {
        match &mut self.0 {
            Kind::Readiness(inner) => inner.wait(until_ns),
            #[cfg(target_os = "linux")]
            Kind::Completion(inner) => inner.wait(until_ns),
        }
    }

    /// The next event since the last wait; `buffer` takes what was received and has
    /// [`RECEIVE_BYTES_MAX`] bytes.
    pub fn next(&mut self, buffer: &mut [u8]) -> Option<Event> {
        match &mut self.0 {
            Kind::Readiness(inner) => inner.next(buffer),
            #[cfg(target_os = "linux")]
            Kind::Completion(inner) => inner.next(buffer),
        }
    }
}

fn choice(name: &'static str, why: &str) -> Choice {
    Choice {
        name,
        why: why.to_owned(),
    }
}

#[cfg(target_os = "linux")]
fn with_completion(threads: usize) -> io::Result<Vec<Belled>> {
    let one = |_| {
        let bell = Arc::new(Bell::new()?);
        let inner = completion::Completion::new(Arc::clone(&bell))?;
        Ok((Reactor(Kind::Completion(Box::new(inner))), bell))
    };
    (0..threads).map(one).collect()
}

#[cfg(not(target_os = "linux"))]
fn with_completion(_threads: usize) -> io::Result<Vec<Belled>> {
    Err(io::Error::other("it is a part of Linux"))
}

#[cfg(test)]
mod tests;
