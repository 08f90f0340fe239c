//! Sockets by completion, with io_uring: a pass of the loop hands all it has to send to the kernel
//! in one call, and the same call brings what was received since.
//!
//! Each socket has one receive request that stays (multishot) and takes its memory from a ring of
//! buffers. Bytes to send are gathered in one buffer per pass; a send never waits for a socket
//! (`MSG_DONTWAIT`), so it is over when the call returns, and only one that did not send everything
//! is reported back. That needs Linux 6.1, which is also the first with requests whose work is
//! deferred to the thread that asks for it.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};

use super::buffers::{self, Buffers};
use super::tag::{GENERATION_MAX, Purpose, Tag};
use super::{Event, Stream};
use crate::sys::{Bell, monotonic_ns, sharpen_timers};

/// Requests handed over at a time; more take another call.
const REQUESTS: u32 = 1024;
/// Results that fit without the kernel having to keep some back.
const RESULTS: u32 = 4096;
/// Sockets that the kernel finds by number, which spares it a look-up with each request.
const FILES_MAX: u32 = 16_384;
const SEND_FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;

/// The sockets of one thread.
pub(super) struct Completion {
    /// Dropped before the buffers that the kernel writes to.
    ring: IoUring,
    buffers: Buffers,
    sockets: Vec<Option<Socket>>,
    /// Number of sockets that the kernel finds by their slot.
    files: usize,
    /// Number of the socket opened last: results for an earlier one in the same place are stale.
    generation: u32,
    /// The requests of this pass and of the last one.
    sending: Batch,
    sent: Batch,
    /// Sockets whose receive request has ended and must be made again.
    receive_again: Vec<usize>,
    /// Requests other than sends, for the next call.
    requests: Vec<squeue::Entry>,
    results: Vec<Outcome>,
    /// Number of processed `results`.
    seen: usize,
    bell: Arc<Bell>,
    bell_watched: bool,
}

struct Socket {
    stream: Stream,
    generation: u32,
    /// True if the kernel finds it by its slot.
    fixed: bool,
    connecting: bool,
    /// Output that the socket did not accept; while there is some, its writability is watched.
    unsent: Vec<u8>,
}

/// Bytes to send, of many sockets.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    parts: Vec<Part>,
}

#[derive(Clone, Copy)]
struct Part {
    slot: usize,
    generation: u32,
    start: usize,
    end: usize,
}

/// A result of the kernel's that is not about a send.
#[derive(Clone, Copy)]
struct Outcome {
    tag: Tag,
    result: i32,
    flags: u32,
}

impl Completion {
    /// Not yet bound to a thread; see [`Self::settle`].
    pub(super) fn new(bell: Arc<Bell>) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(RESULTS)
            .build(REQUESTS)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [
            opcode::Send::CODE,
            opcode::RecvMulti::CODE,
            opcode::PollAdd::CODE,
        ];
        if !needed.into_iter().all(|code| probe.is_supported(code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let buffers = Buffers::register(&ring.submitter())?;
        Ok(Self {
            ring,
            buffers,
            sockets: Vec::new(),
            files: 0,
            generation: 0,
            sending: Batch::default(),
            sent: Batch::default(),
            receive_again: Vec::new(),
            requests: Vec::new(),
            results: Vec::with_capacity(RESULTS as usize),
            seen: 0,
            bell,
            bell_watched: false,
        })
    }

    /// Binds it to the calling thread.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        // Waiting with a time-out is as exact as the thread's timers are.
        sharpen_timers();
        let submitter = self.ring.submitter();
        submitter.register_enable_rings()?;
        // Without, it only takes longer.
        if submitter.register_files_sparse(FILES_MAX).is_ok() {
            self.files = FILES_MAX as usize;
        }
        Ok(())
    }

    pub(super) fn open(&mut self, slot: usize, stream: Stream) {
        if self.sockets.len() <= slot {
            self.sockets.resize_with(slot + 1, || None);
        }
        self.generation = (self.generation + 1) & GENERATION_MAX;
        self.sockets[slot] = Some(Socket {
            fixed: self.fix(slot, stream.as_raw_fd()),
            stream,
            generation: self.generation,
            connecting: true,
            unsent: Vec::new(),
        });
        self.watch_writable(slot);
    }

    pub(super) fn send(&mut self, slot: usize, bytes: &[u8]) {
        let Some(socket) = socket(&mut self.sockets, slot) else {
            return;
        };
        if !socket.unsent.is_empty() {
            return socket.unsent.extend_from_slice(bytes);
        }
        let start = self.sending.bytes.len();
        self.sending.bytes.extend_from_slice(bytes);
        let end = self.sending.bytes.len();
        match self.sending.parts.last_mut() {
            // Two sends of one socket would be two packets.
            Some(last) if last.slot == slot && last.generation == socket.generation => {
                last.end = end;
            }
            _ => self.sending.parts.push(Part {
                slot,
                generation: socket.generation,
                start,
                end,
            }),
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
        // Ends the requests that still wait for the socket; their results are stale.
        socket.stream.shut_down();
        if socket.fixed {
            self.fix(slot, -1);
        }
    }

    /// Lets the kernel find a descriptor by its slot from now on; false if it does not.
    fn fix(&self, slot: usize, fd: RawFd) -> bool {
        let Some(offset) = u32::try_from(slot).ok().filter(|_| slot < self.files) else {
            return false;
        };
        let fixed = self.ring.submitter().register_files_update(offset, &[fd]);
        fixed.is_ok_and(|count| count == 1)
    }

    pub(super) fn wait(&mut self, until_ns: Option<u64>) -> io::Result<()> {
        self.results.clear();
        self.seen = 0;
        if !self.bell_watched {
            self.bell_watched = true;
            self.watch_bell();
        }
        self.receive_again();
        std::mem::swap(&mut self.sending, &mut self.sent);
        self.sending.clear();
        self.request_all()?;
        loop {
            self.enter(until_ns)?;
            self.collect();
            // The kernel may take nothing while results overflow; what is sent must not stay behind.
            if self.ring.submission().is_empty() {
                return Ok(());
            }
        }
    }

    pub(super) fn next(&mut self, buffer: &mut [u8]) -> Option<Event> {
        while self.seen < self.results.len() {
            let outcome = self.results[self.seen];
            self.seen += 1;
            let event = match outcome.tag.purpose {
                Purpose::Receive => self.received(outcome, buffer),
                Purpose::Writable => self.writable(outcome),
                Purpose::Bell => {
                    self.bell_watched = cqueue::more(outcome.flags);
                    self.bell.silence();
                    Some(Event::Rung)
                }
                Purpose::End => {
                    self.receive_to_end(outcome);
                    None
                }
                Purpose::Send => None,
            };
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// Puts requests into the queue to the kernel: those kept back, then one for each part to send.
    fn request_all(&mut self) -> io::Result<()> {
        for request in self.requests.drain(..) {
            push(&mut self.ring, &request)?;
        }
        let base = self.sent.bytes.as_ptr();
        for (index, part) in self.sent.parts.iter().enumerate() {
            let socket = self.sockets.get(part.slot).and_then(Option::as_ref);
            let Some(socket) = socket.filter(|socket| socket.generation == part.generation) else {
                continue;
            };
            let tag = Tag {
                purpose: Purpose::Send,
                generation: part.generation,
                index,
            };
            // SAFETY: `start` lies within the batch, whose bytes stay where they are until the next
            // swap; by then the send is over, since it never waits.
            let start = unsafe { base.add(part.start) };
            let length = u32::try_from(part.end - part.start).unwrap_or(u32::MAX);
            let request = if socket.fixed {
                opcode::Send::new(Fixed(part.slot as u32), start, length)
            } else {
                opcode::Send::new(Fd(socket.stream.as_raw_fd()), start, length)
            };
            let request = request
                .flags(SEND_FLAGS)
                .build()
                .flags(squeue::Flags::SKIP_SUCCESS)
                .user_data(tag.pack());
            push(&mut self.ring, &request)?;
        }
        Ok(())
    }

    /// Hands all requests over and waits for a result.
    fn enter(&mut self, until_ns: Option<u64>) -> io::Result<()> {
        let left_ns = until_ns.map(|until_ns| until_ns.saturating_sub(monotonic_ns()));
        let submitter = self.ring.submitter();
        let entered = match left_ns {
            None => submitter.submit_and_wait(1),
            Some(left_ns) => {
                let time = Timespec::from(Duration::from_nanos(left_ns));
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        match entered {
            Ok(_) => Ok(()),
            // The time is over; a signal came; or results must be fetched before more is taken.
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Fetches results. Sends that fell short are seen to at once, before anything that was received
    /// makes their socket send more.
    fn collect(&mut self) {
        loop {
            let mut short = None;
            for entry in self.ring.completion() {
                let outcome = Outcome {
                    tag: Tag::unpack(entry.user_data()),
                    result: entry.result(),
                    flags: entry.flags(),
                };
                if outcome.tag.purpose == Purpose::Send {
                    short = Some(outcome);
                    break;
                }
                self.results.push(outcome);
            }
            match short {
                Some(outcome) => self.sent_short(outcome),
                None => return,
            }
        }
    }

    /// A send did not send everything: the rest waits until the socket takes it. One that is broken
    /// is heard of by its receive request, after what the server had still to say.
    fn sent_short(&mut self, outcome: Outcome) {
        let Some(part) = self.sent.parts.get(outcome.tag.index).copied() else {
            return;
        };
        let sent = match usize::try_from(outcome.result) {
            Ok(sent) => sent,
            Err(_) if outcome.result == -libc::EAGAIN => 0,
            Err(_) => return,
        };
        let rest = (part.start + sent).min(part.end)..part.end;
        let Some(socket) = socket(&mut self.sockets, part.slot) else {
            return;
        };
        if socket.generation != part.generation || rest.is_empty() {
            return;
        }
        let waits = !socket.unsent.is_empty();
        socket.unsent.extend_from_slice(&self.sent.bytes[rest]);
        if !waits {
            self.watch_writable(part.slot);
        }
    }

    fn received(&mut self, outcome: Outcome, buffer: &mut [u8]) -> Option<Event> {
        let slot = outcome.tag.index;
        let id = cqueue::buffer_select(outcome.flags);
        let current = socket(&mut self.sockets, slot)
            .is_some_and(|socket| socket.generation == outcome.tag.generation);
        if !current {
            if let Some(id) = id {
                self.buffers.hand_over(id);
            }
            return None;
        }
        match usize::try_from(outcome.result) {
            Ok(0) => {
                if let Some(id) = id {
                    self.buffers.hand_over(id);
                }
                Some(Event::Closed(slot, None))
            }
            Ok(length) => {
                if !cqueue::more(outcome.flags) {
                    self.receive_again.push(slot);
                }
                let count = self.buffers.take(id?, length, buffer);
                Some(Event::Received(slot, count))
            }
            // All buffers were in use, or a signal came.
            Err(_) if matches!(-outcome.result, libc::ENOBUFS | libc::EINTR | libc::EAGAIN) => {
                self.receive_again.push(slot);
                None
            }
            Err(_) => {
                let error = io::Error::from_raw_os_error(-outcome.result);
                Some(Event::Closed(slot, Some(error)))
            }
        }
    }

    fn writable(&mut self, outcome: Outcome) -> Option<Event> {
        let slot = outcome.tag.index;
        let socket = socket(&mut self.sockets, slot)
            .filter(|socket| socket.generation == outcome.tag.generation)?;
        if socket.connecting {
            socket.connecting = false;
            let connected = socket.stream.take_error();
            if connected.is_ok() {
                self.receive_again.push(slot);
                self.watch_end(slot);
            }
            return Some(Event::Connected(slot, connected));
        }
        // A socket that is broken is heard of by its receive request.
        let sent = socket.stream.write_some(&socket.unsent).unwrap_or_default();
        socket.unsent.drain(..sent);
        if socket.unsent.is_empty() {
            socket.unsent = Vec::new();
            return Some(Event::Drained(slot));
        }
        if outcome.result >= 0 && outcome.result & i32::from(libc::POLLERR | libc::POLLHUP) == 0 {
            self.watch_writable(slot);
        }
        None
    }

    /// The other side has closed its end: asks for what is left, up to the end itself.
    fn receive_to_end(&mut self, outcome: Outcome) {
        let slot = outcome.tag.index;
        let current = socket(&mut self.sockets, slot)
            .is_some_and(|socket| socket.generation == outcome.tag.generation);
        if current {
            self.receive_again.push(slot);
        }
    }

    fn receive_again(&mut self) {
        while let Some(slot) = self.receive_again.pop() {
            // One that is connecting took the place of the one that is meant.
            let Some(socket) = socket(&mut self.sockets, slot).filter(|socket| !socket.connecting)
            else {
                continue;
            };
            let tag = Tag {
                purpose: Purpose::Receive,
                generation: socket.generation,
                index: slot,
            };
            let request = if socket.fixed {
                opcode::RecvMulti::new(Fixed(slot as u32), buffers::GROUP).build()
            } else {
                opcode::RecvMulti::new(Fd(socket.stream.as_raw_fd()), buffers::GROUP).build()
            };
            let request = request.user_data(tag.pack());
            self.requests.push(request);
        }
    }

    fn watch_writable(&mut self, slot: usize) {
        if let Some(socket) = socket(&mut self.sockets, slot) {
            let tag = Tag {
                purpose: Purpose::Writable,
                generation: socket.generation,
                index: slot,
            };
            let events = u32::from(libc::POLLOUT.cast_unsigned());
            let request = opcode::PollAdd::new(Fd(socket.stream.as_raw_fd()), events)
                .build()
                .user_data(tag.pack());
            self.requests.push(request);
        }
    }

    /// A receive request that stays can miss the end of a stream that comes right behind data (seen
    /// on Linux 6.18): the end is watched for separately, and receiving is then requested again.
    fn watch_end(&mut self, slot: usize) {
        if let Some(socket) = socket(&mut self.sockets, slot) {
            let tag = Tag {
                purpose: Purpose::End,
                generation: socket.generation,
                index: slot,
            };
            let events = u32::from(libc::POLLRDHUP.cast_unsigned());
            let request = opcode::PollAdd::new(Fd(socket.stream.as_raw_fd()), events)
                .build()
                .user_data(tag.pack());
            self.requests.push(request);
        }
    }

    fn watch_bell(&mut self) {
        let tag = Tag {
            purpose: Purpose::Bell,
            generation: 0,
            index: 0,
        };
        let events = u32::from(libc::POLLIN.cast_unsigned());
        let request = opcode::PollAdd::new(Fd(self.bell.as_raw_fd()), events)
            .multi(true)
            .build()
            .user_data(tag.pack());
        self.requests.push(request);
    }
}

impl Batch {
    fn clear(&mut self) {
        self.bytes.clear();
        self.parts.clear();
    }
}

fn socket(sockets: &mut [Option<Socket>], slot: usize) -> Option<&mut Socket> {
    sockets.get_mut(slot).and_then(Option::as_mut)
}

/// Puts a request into the queue; when it is full the kernel takes them over first.
fn push(ring: &mut IoUring, request: &squeue::Entry) -> io::Result<()> {
    loop {
        // SAFETY: the memory that the request names stays as it is until the request is over: bytes
        // of a batch, see `request_all`; everything else is in the request itself.
        if unsafe { ring.submission().push(request) }.is_ok() {
            return Ok(());
        }
        match ring.submit() {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
}
