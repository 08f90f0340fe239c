//! A worker thread: one event loop over its own connections, timers and counts.
//!
//! This file has the loop itself, and the way in for bytes. A client comes, waits and goes in
//! [`clients`], with an open loop's transactions from [`arrivals`]; its connection passes the [`gate`]
//! and is made and lost in [`connect`], with keys from [`deriving`], or shared in [`pooled`]. Its transactions run in [`transact`]:
//! statements are put together in [`writing`] with the values of [`bound`], in pipelines by
//! [`pipeline`], and [`copy`] feeds COPY; requests are sent and answered in [`http`]. Their outcomes go to the ack ledger in [`ledger`], and to
//! the log of
//! transactions in [`logging`]; errors are explained in [`explain`].

mod adjust;
mod arrivals;
mod bound;
mod clients;
mod connect;
mod copy;
mod deriving;
mod explain;
mod gate;
mod http;
mod ledger;
mod logging;
mod pipeline;
mod pooled;
mod transact;
mod writing;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use pgdyno_wire::{Event, ProtocolError, Scanner};
use slab::Slab;

use self::arrivals::FreeClients;
use self::gate::Gate;
use crate::acks::AckFile;
use crate::client::Client;
use crate::failure::Failure;
use crate::link::{Doing, Link};
use crate::pool::PoolId;
use crate::reactor::{self, Reactor};
use crate::sample::Sampler;
use crate::script::Rng;
use crate::shared::{Mail, Shared};
use crate::socket::{CLOSED, reason};
use crate::sys::lock;
use crate::sys::{CpuTime, RunQueueDelay, monotonic_ns, thread_cpu};
use crate::tally::Tally;
use crate::translog::TransactionLog;
use bound::Bound;

/// The purpose of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A connection's, by index and timer number.
    Link(usize, u32),
    /// A client that thinks without a connection.
    Thinker(usize),
    /// The first client in a pool's queue may have waited too long.
    PoolWait(PoolId),
    /// A pool may open connections again.
    PoolOpen(PoolId),
    /// After a failure, another connection of a group may be tried.
    Turn(usize),
    /// Connections of a group's pools may have become too old.
    PoolSweep(usize),
    /// The next of an open loop's transactions is due.
    Arrival(usize),
    /// Responses to a group's requests may be overdue.
    Overdue(usize),
}

/// True if timers for a pool are set in this thread.
#[derive(Debug, Clone, Copy, Default)]
struct PoolTimers {
    wait: bool,
    open: bool,
}

/// A worker thread's state.
pub struct Worker {
    thread: usize,
    shared: Arc<Shared>,
    reactor: Reactor,
    links: Slab<Link>,
    next_link_id: u64,
    /// Number of the last timer of a connection.
    next_timer: u32,
    /// Indexes that are free after this pass; events of this pass may still name them.
    freed: Vec<usize>,
    /// Clients between transactions, without a connection.
    thinkers: Slab<Box<Client>>,
    timers: BinaryHeap<Reverse<(u64, Timer)>>,
    /// By group and instance.
    pool_timers: Vec<Vec<PoolTimers>>,
    /// By group: open loops' clients that have nothing to do.
    free: Vec<FreeClients>,
    /// Connections whose client goes on without having waited for anything.
    ready: VecDeque<(usize, u64)>,
    /// Through which connections are made.
    gate: Gate,
    /// Connections whose socket must be opened.
    to_open: VecDeque<(usize, u64)>,
    tally: Tally,
    sampler: Sampler,
    acks: Option<AckFile>,
    log: Option<TransactionLog>,
    interval: u64,
    /// Transactions sent and not ended.
    flying: usize,
    stop_at_ns: Option<u64>,
    reported_drained: bool,
    out: BytesMut,
    text: Vec<u8>,
    /// Body of a request.
    body: Vec<u8>,
    bound: Bound,
    /// Decrypted input.
    plain: Vec<u8>,
    rng: Rng,
    cpu: CpuTime,
    run_queue: RunQueueDelay,
    run_queue_us: u64,
}

impl Worker {
    /// For thread number `thread`, which is the calling one; `reactor` wakes when its mailbox rings.
    #[must_use]
    pub fn new(thread: usize, shared: Arc<Shared>, reactor: Reactor) -> Self {
        let tally = Tally::new(&shared.plan);
        let mut run_queue = RunQueueDelay::of_this_thread();
        let seed = shared.plan.seed ^ 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(thread as u64 + 1);
        Self {
            thread,
            reactor,
            links: Slab::new(),
            next_link_id: 0,
            next_timer: 0,
            freed: Vec::new(),
            thinkers: Slab::new(),
            timers: BinaryHeap::new(),
            pool_timers: shared
                .groups
                .iter()
                .map(|group| vec![PoolTimers::default(); group.pools.len()])
                .collect(),
            free: shared
                .groups
                .iter()
                .map(|_| FreeClients::default())
                .collect(),
            ready: VecDeque::new(),
            gate: Gate::new(shared.plan.connecting_max, shared.plan.threads),
            to_open: VecDeque::new(),
            tally,
            sampler: Sampler::new(shared.plan.rows()),
            acks: shared.take_acks(thread),
            log: shared.take_log(thread),
            interval: 0,
            flying: 0,
            stop_at_ns: None,
            reported_drained: false,
            out: BytesMut::with_capacity(4096),
            text: Vec::with_capacity(256),
            body: Vec::new(),
            bound: Bound::default(),
            plain: Vec::new(),
            rng: Rng::new(seed),
            cpu: thread_cpu(),
            run_queue_us: run_queue.read_us(),
            run_queue,
            shared,
        }
    }

    /// Runs until [`Mail::Exit`].
    pub fn run(mut self) {
        let mut buffer = vec![0; reactor::RECEIVE_BYTES_MAX];
        self.start_pools(monotonic_ns());
        self.watch_overdue(monotonic_ns());
        self.spawn_clients();
        self.pass_gate();
        while self.reactor.wait(self.wakes_at_ns()).is_ok() {
            let began_ns = monotonic_ns();
            self.follow_interval();
            while let Some(event) = self.reactor.next(&mut buffer) {
                match event {
                    reactor::Event::Rung => {
                        if self.read_mail() {
                            return self.exit();
                        }
                    }
                    reactor::Event::Connected(slot, outcome) => self.on_socket(slot, outcome),
                    reactor::Event::Received(slot, count) => self.on_bytes(slot, &buffer[..count]),
                    reactor::Event::Drained(slot) => self.on_drained(slot),
                    reactor::Event::Closed(slot, None) => {
                        self.on_closed(slot, CLOSED);
                    }
                    reactor::Event::Closed(slot, Some(error)) => {
                        self.on_closed(slot, &reason(&error));
                    }
                }
            }
            self.run_timers(began_ns);
            self.run_ready();
            self.open_sockets();
            self.free_links();
            self.pass_gate();
            self.check_drained();
            let ended_ns = monotonic_ns();
            self.write_acks(ended_ns, false);
            self.write_log(ended_ns, false);
            let pass_ns = ended_ns - began_ns;
            self.tally.thread.passes += 1;
            let longest = &mut self.tally.thread.loop_stall_ns_max;
            *longest = pass_ns.max(*longest);
        }
        self.exit();
    }

    /// Until when to wait for events, if not until something happens.
    fn wakes_at_ns(&self) -> Option<u64> {
        if !self.ready.is_empty() || !self.to_open.is_empty() {
            return Some(0);
        }
        let stop = self.stop_at_ns.filter(|_| !self.reported_drained);
        let next = self.timers.peek().map(|Reverse((at_ns, _))| *at_ns);
        let acks = self.acks.as_ref().and_then(AckFile::due_ns);
        let log = self.log.as_ref().and_then(TransactionLog::due_ns);
        [next, stop, acks, log].into_iter().flatten().min()
    }

    /// Hands the counts of intervals that are over to the collector.
    fn follow_interval(&mut self) {
        while self.shared.interval.load(Ordering::Acquire) > self.interval {
            self.submit();
            self.interval += 1;
            self.log_skips();
        }
    }

    fn submit(&mut self) {
        self.audit();
        self.look_at_links(monotonic_ns());
        let clients: Vec<u32> = self
            .shared
            .groups
            .iter()
            .map(|group| group.clients())
            .collect();
        let spare = lock(&self.shared.collector).take_spare();
        let next = spare.unwrap_or_else(|| Tally::new(&self.shared.plan));
        let tally = std::mem::replace(&mut self.tally, next);
        lock(&self.shared.collector).submit(self.interval, self.thread, tally, &clients);
    }

    /// Counts what connections are at the interval's end.
    fn look_at_links(&mut self, now_ns: u64) {
        for (_, link) in &self.links {
            let tally = &mut self.tally.groups[link.group];
            if link.is_established() {
                tally.connections += 1;
            }
            if let Some(since_ns) = link.waits_since_ns() {
                tally.waits(now_ns.saturating_sub(since_ns));
            }
        }
    }

    fn audit(&mut self) {
        let (cpu, run_queue_us) = (thread_cpu(), self.run_queue.read_us());
        self.tally.thread.cpu = CpuTime {
            user_us: cpu.user_us.saturating_sub(self.cpu.user_us),
            system_us: cpu.system_us.saturating_sub(self.cpu.system_us),
        };
        self.tally.thread.run_queue_delay_us = run_queue_us.saturating_sub(self.run_queue_us);
        self.cpu = cpu;
        self.run_queue_us = run_queue_us;
    }

    /// True when the thread is to end.
    fn read_mail(&mut self) -> bool {
        for mail in self.shared.mailboxes[self.thread].take() {
            match mail {
                Mail::Handover(link, client) => {
                    self.follow_interval();
                    self.take_over(link, client);
                }
                Mail::Connect(group, link) => self.on_admitted(group, link),
                Mail::Keys(link, derived) => self.on_keys(link, &derived),
                Mail::OpenPooled(pool) => self.open_pooled(pool),
                Mail::ClientsChanged => {
                    self.retire_free();
                    self.spawn_clients();
                }
                Mail::Arrivals(group) => self.take_arrivals(group),
                Mail::PoolChanged(group) => self.pool_changed(group),
                Mail::Stop(at_ns) => self.stop_at_ns = Some(at_ns),
                Mail::Exit => return true,
            }
        }
        false
    }

    /// The way in for what a socket received.
    fn on_bytes(&mut self, slot: usize, bytes: &[u8]) {
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        if link.connecting.is_some() {
            return self.on_connecting(slot, bytes);
        }
        let Some(tls) = &mut link.tls else {
            return self.on_plain(slot, bytes);
        };
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let opened = tls.open(bytes, &mut plain);
        if !plain.is_empty() {
            self.on_plain(slot, &plain);
        }
        self.plain = plain;
        if let Err(error) = opened {
            self.on_lost(slot, Failure::own("tls-failed", error.message));
        }
    }

    /// The way in for what the server sent.
    fn on_plain(&mut self, slot: usize, bytes: &[u8]) {
        let now_ns = monotonic_ns();
        let link = &mut self.links[slot];
        link.heard_ns = now_ns;
        if link.http.is_some() {
            return self.on_http_bytes(slot, bytes, now_ns);
        }
        let mut scanner = std::mem::take(&mut link.scanner);
        scanner.keep_rows(link.statement.capture.is_on());
        let outcome = self.on_messages(slot, &mut scanner, bytes, now_ns);
        if let Some(link) = self.links.get_mut(slot)
            && link.session.is_some()
        {
            link.scanner = scanner;
        }
        if let Err(error) = outcome {
            self.on_lost(slot, Failure::own("protocol-error", error.to_string()));
        }
    }

    fn on_messages(
        &mut self,
        slot: usize,
        scanner: &mut Scanner,
        bytes: &[u8],
        now_ns: u64,
    ) -> Result<(), ProtocolError> {
        let group = self.links[slot].group;
        let mut scan = scanner.scan(bytes);
        while let Some(message) = scan.message()? {
            // An event before this one may have closed the connection.
            let Some(session) = self
                .links
                .get_mut(slot)
                .and_then(|link| link.session.as_mut())
            else {
                break;
            };
            let event =
                session.receive(message, &self.shared.targets[group].identity, &mut self.out)?;
            if !self.out.is_empty() {
                self.send(slot);
            }
            self.on_event(slot, event, now_ns)?;
        }
        Ok(())
    }

    /// Handle a message of the server. Only [`Event::Ready`] makes the connection continue.
    fn on_event(
        &mut self,
        slot: usize,
        event: Event<'_>,
        now_ns: u64,
    ) -> Result<(), ProtocolError> {
        match event {
            Event::Ready(status) => self.on_ready(slot, status, now_ns),
            Event::Error(error) => self.on_error(slot, &error),
            Event::Notice(notice) => self.on_notice(slot, &notice),
            Event::Parsed => self.on_parsed(slot),
            Event::ParameterTypes(types) => self.on_parameter_types(slot, types),
            Event::Columns(columns) => self.on_columns(slot, columns)?,
            Event::Row(Some(row)) => self.on_row(slot, row)?,
            Event::CopyIn(format) => self.on_copy_in(slot, format)?,
            Event::Complete {
                untouched,
                rolled_back,
            } => self.on_complete(slot, untouched, rolled_back, now_ns),
            _ => {}
        }
        Ok(())
    }

    /// Sends what was put into the output buffer.
    fn send(&mut self, slot: usize) {
        if let Some(tls) = &mut self.links[slot].tls {
            tls.seal(&mut self.out);
        }
        self.reactor.send(slot, &self.out);
        self.out.clear();
    }

    /// Sets a connection's timer, instead of the one it has.
    fn set_timer(&mut self, slot: usize, at_ns: u64) {
        // Of all connections, not of this one: its place is soon another's, and its timers are left.
        self.next_timer = self.next_timer.wrapping_add(1);
        self.links[slot].timer = self.next_timer;
        self.timers
            .push(Reverse((at_ns, Timer::Link(slot, self.next_timer))));
    }

    fn run_timers(&mut self, now_ns: u64) {
        while let Some(Reverse((at_ns, timer))) = self.timers.peek().copied() {
            if at_ns > now_ns {
                break;
            }
            self.timers.pop();
            match timer {
                Timer::Link(slot, timer) => {
                    if self.links.get(slot).is_some_and(|link| link.timer == timer) {
                        self.on_timer(slot, at_ns);
                    }
                }
                Timer::Thinker(index) => {
                    let client = self.thinkers.remove(index);
                    if self.stop_at_ns.is_none() {
                        self.begin_pooled(client, at_ns);
                    }
                }
                Timer::PoolWait(pool) => {
                    self.timers_of(pool).wait = false;
                    self.expire_waiters(pool, now_ns);
                }
                Timer::PoolOpen(pool) => {
                    self.timers_of(pool).open = false;
                    self.grow_pool(pool, now_ns);
                }
                Timer::Turn(group) => self.admit(group),
                Timer::PoolSweep(group) => self.sweep_pool(group, now_ns),
                Timer::Arrival(group) => self.on_arrival(group, at_ns),
                Timer::Overdue(group) => self.end_overdue(group, now_ns),
            }
        }
    }

    fn on_timer(&mut self, slot: usize, at_ns: u64) {
        match self.links[slot].doing {
            Doing::Pausing if self.stop_at_ns.is_none() => self.connect_in_turn(slot),
            Doing::Connecting => self.on_connect_timer(slot),
            Doing::Validating => {
                let message = "the validation query was not answered in time";
                self.on_lost(slot, Failure::own("validation-failed", message));
            }
            Doing::Sleeping => {
                self.links[slot].doing = Doing::Idle;
                self.run_script(slot, monotonic_ns());
            }
            Doing::Idle => self.end_thinking(slot, at_ns),
            _ => {}
        }
    }

    /// Lets those go on that did not wait for anything, once each, so that a script without a
    /// statement cannot starve the others.
    fn run_ready(&mut self) {
        for _ in 0..self.ready.len() {
            let Some((slot, id)) = self.ready.pop_front() else {
                break;
            };
            let Some(link) = self.links.get(slot).filter(|link| link.id == id) else {
                continue;
            };
            if link.statement.copying {
                self.copy_on(slot);
            } else if link.doing == Doing::Idle
                && link.client.is_some()
                && self.stop_at_ns.is_none()
            {
                self.run_script(slot, monotonic_ns());
            }
        }
    }

    fn free_links(&mut self) {
        for slot in self.freed.drain(..) {
            self.links.remove(slot);
        }
    }
}
