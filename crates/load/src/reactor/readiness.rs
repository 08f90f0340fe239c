//! Sockets by readiness, with mio: the kernel says which are ready, then they are read and written.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::{Event, Stream};
use crate::sys::{Alarm, Bell, monotonic_ns};

const BELL: Token = Token(usize::MAX);
const ALARM: Token = Token(usize::MAX - 1);
/// Events taken from the kernel at a time.
const EVENTS: usize = 1024;

/// The sockets of one thread.
pub(super) struct Readiness {
    poll: Poll,
    events: Events,
    ready: Vec<Ready>,
    /// Number of processed entries of `ready`.
    seen: usize,
    /// The socket that is being read, and whether the server has closed its side.
    reading: Option<(usize, bool)>,
    sockets: Vec<Option<Socket>>,
    /// Sockets that took no bytes: what the server still said is read before they count as closed.
    broken: Vec<usize>,
    bell: Arc<Bell>,
    alarm: Alarm,
}

struct Socket {
    stream: Stream,
    connecting: bool,
    unsent: Vec<u8>,
}

/// An event of the kernel's.
struct Ready {
    token: Token,
    writable: bool,
    readable: bool,
    closed: bool,
}

impl Readiness {
    pub(super) fn new(bell: Arc<Bell>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let alarm = Alarm::new()?;
        let watch = |fd, token| {
            let registry = poll.registry();
            registry.register(&mut SourceFd(&fd), token, Interest::READABLE)
        };
        watch(bell.as_raw_fd(), BELL)?;
        watch(alarm.as_raw_fd(), ALARM)?;
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS),
            ready: Vec::with_capacity(EVENTS),
            seen: 0,
            reading: None,
            sockets: Vec::new(),
            broken: Vec::new(),
            bell,
            alarm,
        })
    }

    pub(super) fn open(&mut self, slot: usize, mut stream: Stream) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        registry.register(stream.source(), Token(slot), interest)?;
        if self.sockets.len() <= slot {
            self.sockets.resize_with(slot + 1, || None);
        }
        self.sockets[slot] = Some(Socket {
            stream,
            connecting: true,
            unsent: Vec::new(),
        });
        Ok(())
    }

    pub(super) fn send(&mut self, slot: usize, bytes: &[u8]) {
        let Some(socket) = socket(&mut self.sockets, slot) else {
            return;
        };
        if !socket.unsent.is_empty() {
            return socket.unsent.extend_from_slice(bytes);
        }
        let sent = socket.stream.write_some(bytes).and_then(|sent| {
            if sent < bytes.len() {
                socket.unsent.extend_from_slice(&bytes[sent..]);
                let interest = Interest::READABLE | Interest::WRITABLE;
                let registry = self.poll.registry();
                registry.reregister(socket.stream.source(), Token(slot), interest)?;
            }
            Ok(())
        });
        if sent.is_err() {
            self.broken.push(slot);
        }
    }

    pub(super) fn unsent_bytes(&self, slot: usize) -> usize {
        let socket = self.sockets.get(slot).and_then(Option::as_ref);
        socket.map_or(0, |socket| socket.unsent.len())
    }

    pub(super) fn close(&mut self, slot: usize, farewell: &[u8]) {
        let Some(mut socket) = self.sockets.get_mut(slot).and_then(Option::take) else {
            return;
        };
        if socket.unsent.is_empty() {
            // The server notices that the connection has ended either way.
            let _ = socket.stream.write_some(farewell);
        }
        let _ = self.poll.registry().deregister(socket.stream.source());
    }

    pub(super) fn wait(&mut self, until_ns: Option<u64>) -> io::Result<()> {
        self.ready.clear();
        self.seen = 0;
        let past = until_ns.is_some_and(|until_ns| until_ns <= monotonic_ns());
        let timeout = (past || !self.broken.is_empty()).then_some(Duration::ZERO);
        if timeout.is_none() {
            self.alarm.set(until_ns);
        }
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            outcome => outcome?,
        }
        self.ready.extend(self.events.iter().map(|event| Ready {
            token: event.token(),
            writable: event.is_writable(),
            readable: event.is_readable() || event.is_error() || event.is_read_closed(),
            closed: event.is_read_closed(),
        }));
        Ok(())
    }

    pub(super) fn next(&mut self, buffer: &mut [u8]) -> Option<Event> {
        loop {
            if let Some((slot, closed)) = self.reading {
                if let Some(event) = self.read(slot, closed, buffer) {
                    return Some(event);
                }
                self.reading = None;
            }
            if self.seen < self.ready.len() {
                self.seen += 1;
                if let Some(event) = self.take(self.seen - 1) {
                    return Some(event);
                }
            } else if let Some(slot) = self.broken.pop() {
                self.reading = Some((slot, true));
            } else {
                return None;
            }
        }
    }

    /// Process one event of the kernel, except the reading that may follow.
    fn take(&mut self, index: usize) -> Option<Event> {
        let ready = &self.ready[index];
        match ready.token {
            BELL => {
                self.bell.silence();
                Some(Event::Rung)
            }
            // Whoever set it looks at the clock after each wait.
            ALARM => None,
            Token(slot) => {
                self.reading = ready.readable.then_some((slot, ready.closed));
                if !ready.writable {
                    return None;
                }
                let socket = socket(&mut self.sockets, slot)?;
                if socket.connecting {
                    socket.connecting = false;
                    let registry = self.poll.registry();
                    let interest = Interest::READABLE;
                    let connected = socket.stream.take_error().and_then(|()| {
                        registry.reregister(socket.stream.source(), Token(slot), interest)
                    });
                    return Some(Event::Connected(slot, connected));
                }
                self.send_rest(slot)
            }
        }
    }

    /// Sends more of what waits, now that the socket takes it.
    fn send_rest(&mut self, slot: usize) -> Option<Event> {
        let socket = socket(&mut self.sockets, slot)?;
        if socket.unsent.is_empty() {
            return None;
        }
        let Ok(sent) = socket.stream.write_some(&socket.unsent) else {
            self.broken.push(slot);
            return None;
        };
        if sent < socket.unsent.len() {
            socket.unsent.drain(..sent);
            return None;
        }
        socket.unsent = Vec::new();
        let registry = self.poll.registry();
        let watched = registry.reregister(socket.stream.source(), Token(slot), Interest::READABLE);
        if watched.is_err() {
            self.broken.push(slot);
        }
        Some(Event::Drained(slot))
    }

    /// Reads until the socket has no more. A read that does not fill the buffer says as much, unless
    /// the server has `closed` its side: then the end of the stream is still to be read.
    fn read(&mut self, slot: usize, closed: bool, buffer: &mut [u8]) -> Option<Event> {
        let socket = socket(&mut self.sockets, slot)?;
        if socket.connecting {
            return None;
        }
        match socket.stream.read_some(buffer) {
            Ok(None) if closed => self.closed(slot, None),
            Ok(None) => None,
            Ok(Some(0)) => self.closed(slot, None),
            Ok(Some(count)) => {
                if count < buffer.len() && !closed {
                    self.reading = None;
                }
                Some(Event::Received(slot, count))
            }
            Err(error) => self.closed(slot, Some(error)),
        }
    }

    fn closed(&mut self, slot: usize, error: Option<io::Error>) -> Option<Event> {
        self.reading = None;
        Some(Event::Closed(slot, error))
    }
}

fn socket(sockets: &mut [Option<Socket>], slot: usize) -> Option<&mut Socket> {
    sockets.get_mut(slot).and_then(Option::as_mut)
}
