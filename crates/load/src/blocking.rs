//! A socket that is waited for, with a limit of time for all that is done with it: for the
//! connection before a load and for cancel requests, which are outside the event loop.

use std::io::{self, Read, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};

use crate::hosts::Address;
use crate::reactor::Stream;
use crate::socket::connect;

/// Pause before the next try to connect to a server whose queue is full.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(2);

/// A connected socket.
pub struct Blocking {
    stream: Stream,
    poll: Poll,
    events: Events,
    until: Instant,
}

impl Blocking {
    /// Connects.
    ///
    /// # Errors
    /// As those of the other functions: the system's, or [`io::ErrorKind::TimedOut`].
    pub fn connect(address: &Address, until: Instant) -> io::Result<Self> {
        let mut stream = loop {
            match connect(address) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() >= until {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    sleep(QUEUE_FULL_PAUSE);
                }
                other => break other?,
            }
        };
        let poll = Poll::new()?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry()
            .register(stream.source(), Token(0), interest)?;
        let mut socket = Self {
            stream,
            poll,
            events: Events::with_capacity(4),
            until,
        };
        socket.wait()?;
        socket.stream.take_error()?;
        Ok(socket)
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// The system's, or [`io::ErrorKind::TimedOut`].
    pub fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) => self.wait_after(error)?,
            }
        }
        Ok(())
    }

    /// Reads what is there, or what comes; nothing at the end.
    ///
    /// # Errors
    /// As above.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Ok(count) => return Ok(count),
                Err(error) => self.wait_after(error)?,
            }
        }
    }

    fn wait_after(&mut self, error: io::Error) -> io::Result<()> {
        match error.kind() {
            io::ErrorKind::WouldBlock => self.wait(),
            io::ErrorKind::Interrupted => Ok(()),
            _ => Err(error),
        }
    }

    /// Until something happens to the socket.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match self.poll.poll(&mut self.events, Some(left)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ if !self.events.is_empty() => return Ok(()),
                _ => {}
            }
        }
    }
}
