//! Connections: being made, lost, made again, and closed.

use std::cmp::Reverse;
use std::io;

use super::deriving::derive_in_background;
use super::{Timer, Worker};
use crate::connecting::{ConnectError, Connecting};
use crate::failure::Code;
use crate::failure::{Details, Failure};
use crate::keys::{Answer, Derived};
use crate::link::{Doing, Link};
use crate::pool::LinkRef;
use crate::socket::connect;
use crate::sys::lock;
use crate::sys::monotonic_ns;
use crate::tally::{ErrorKey, Place};

/// Most sockets that are opened in one pass of the loop.
const OPENED_PER_PASS: usize = 64;
/// Mean pause before the next try to connect to a server whose queue is full.
const QUEUE_FULL_PAUSE_NS: u64 = 5_000_000;
/// There is nothing that waiting could help.
const TOO_MANY_FILES: Code = Code::Own("too-many-files");

impl Worker {
    /// A place for a connection.
    pub(super) fn new_link(&mut self, group: usize) -> usize {
        self.next_link_id += 1;
        self.links.insert(Link::new(self.next_link_id, group))
    }

    /// Begins to connect: past the gate. The socket is opened at the end of a pass.
    pub(super) fn begin_connecting(&mut self, slot: usize) {
        let group = self.links[slot].group;
        let (target, group) = (&self.shared.targets[group], Some(group));
        let connecting = Connecting::new(target, group, &mut self.rng, monotonic_ns());
        let link = &mut self.links[slot];
        link.doing = Doing::Connecting;
        link.connecting = Some(Box::new(connecting));
        self.to_open.push_back((slot, link.id));
    }

    /// Opens sockets, so many in a pass that those that are connected do not wait for long.
    pub(super) fn open_sockets(&mut self) {
        for _ in 0..OPENED_PER_PASS {
            let Some((slot, id)) = self.to_open.pop_front() else {
                return;
            };
            let due = self.links.get(slot).is_some_and(|link| {
                link.id == id && link.connecting.as_ref().is_some_and(|it| !it.has_socket())
            });
            if due && (self.stop_at_ns.is_none() || self.is_flying(slot)) {
                self.open_socket(slot);
            }
        }
    }

    /// True if its client's transaction was sent, in part, and goes on over it.
    fn is_flying(&self, slot: usize) -> bool {
        let client = self.links[slot].client.as_ref();
        client.is_some_and(|client| client.open && client.sent_ns != 0)
    }

    fn open_socket(&mut self, slot: usize) {
        let now_ns = monotonic_ns();
        let until_ns = now_ns + self.shared.plan.connect_timeout_ns;
        let link = &mut self.links[slot];
        let Some(connecting) = &mut link.connecting else {
            return;
        };
        let until_ns = connecting.allow_until(until_ns);
        let Some(address) = connecting.place() else {
            let why = self.shared.targets[link.group].hosts.unknown().join("; ");
            return self.on_lost(slot, Failure::own("connect-failed", why));
        };
        match connect(address).and_then(|stream| self.reactor.open(slot, stream)) {
            Ok(()) => {
                connecting.set_socket();
                self.set_timer(slot, until_ns);
            }
            // The queue of a Unix socket is full: the server is there, and busy letting others in.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && now_ns < until_ns => {
                let pause_ns = QUEUE_FULL_PAUSE_NS / 2 + self.rng.next_u64() % QUEUE_FULL_PAUSE_NS;
                self.set_timer(slot, until_ns.min(now_ns + pause_ns));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let failure = connecting.on_timeout(&self.shared.targets[link.group]);
                self.on_connect_error(slot, failure);
            }
            Err(error) => {
                let failure = connecting.on_unreachable(&self.shared.targets[link.group], &error);
                self.on_connect_error(slot, failure);
            }
        }
    }

    /// It is time to try a full queue again, or the server's time is over.
    pub(super) fn on_connect_timer(&mut self, slot: usize) {
        let link = &mut self.links[slot];
        let Some(connecting) = &link.connecting else {
            return;
        };
        if connecting.has_socket() {
            let failure = connecting.on_timeout(&self.shared.targets[link.group]);
            self.on_connect_error(slot, failure);
        } else {
            self.to_open.push_back((slot, link.id));
        }
    }

    /// The socket is connected, or failed to be.
    pub(super) fn on_socket(&mut self, slot: usize, connected: io::Result<()>) {
        let now_ns = monotonic_ns();
        let link = &mut self.links[slot];
        let target = &self.shared.targets[link.group];
        let Some(connecting) = &mut link.connecting else {
            return;
        };
        let outcome = match connected {
            Ok(()) => connecting.on_socket(target, now_ns, &mut self.out),
            Err(error) => Err(connecting.on_unreachable(target, &error)),
        };
        if !self.out.is_empty() {
            self.send(slot);
        }
        match outcome {
            Ok(true) => self.establish(slot, now_ns),
            Ok(false) => {}
            Err(failure) => self.on_connect_error(slot, failure),
        }
    }

    /// Process input on a connection that is being established.
    pub(super) fn on_connecting(&mut self, slot: usize, bytes: &[u8]) {
        let now_ns = monotonic_ns();
        let link = &mut self.links[slot];
        let target = &self.shared.targets[link.group];
        let Some(connecting) = &mut link.connecting else {
            return;
        };
        let outcome = connecting.on_bytes(bytes, target, now_ns, &mut self.out);
        if outcome.is_err() {
            connecting.say_goodbye(&mut self.out);
        }
        if !self.out.is_empty() {
            self.send(slot);
        }
        match outcome {
            Ok(true) => self.establish(slot, now_ns),
            Ok(false) => self.seek_keys(slot),
            Err(failure) => self.on_connect_error(slot, failure),
        }
    }

    /// Gets the keys that authentication waits for, if it does.
    fn seek_keys(&mut self, slot: usize) {
        let target = &self.shared.targets[self.links[slot].group];
        let link_ref = self.link_ref(slot);
        let Some(connecting) = &mut self.links[slot].connecting else {
            return;
        };
        let Some(id) = connecting.keys_needed(target) else {
            return;
        };
        match target.keys.request(id, link_ref, connecting.until_ns()) {
            Answer::Here(derived) => self.on_keys(link_ref, &derived),
            Answer::Later => {}
            Answer::LaterIfDerived => derive_in_background(&self.shared),
        }
    }

    /// Goes on with authentication, if the connection still waits for these keys.
    pub(super) fn on_keys(&mut self, link_ref: LinkRef, derived: &Derived) {
        let slot = link_ref.slot;
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        let target = &self.shared.targets[link.group];
        let Some(connecting) = link.connecting.as_mut().filter(|_| link.id == link_ref.id) else {
            return;
        };
        let outcome = connecting.on_keys(target, derived, &mut self.out);
        if !self.out.is_empty() {
            self.reactor.send(slot, &self.out);
            self.out.clear();
        }
        if let Err(failure) = outcome {
            self.on_connect_error(slot, failure);
        }
    }

    /// Goes on at the next place, if there is one.
    fn on_connect_error(&mut self, slot: usize, failure: ConnectError) {
        let link = &mut self.links[slot];
        self.reactor.close(slot, b"");
        let Some(connecting) = &mut link.connecting else {
            return;
        };
        if let Err(failure) = connecting.try_next(failure) {
            self.shared.targets[link.group].hosts.look_up_again();
            let (code, error) = (failure.code, failure.into_error());
            let failure = Failure {
                code,
                message: error.message.clone(),
                command: None,
                details: Details::default(),
            };
            if code == TOO_MANY_FILES {
                self.shared.fail(error, monotonic_ns());
            }
            return self.on_lost(slot, Box::new(failure));
        }
        self.to_open.push_back((slot, link.id));
    }

    fn establish(&mut self, slot: usize, now_ns: u64) {
        let link = &mut self.links[slot];
        let Some(made) = link.connecting.take().and_then(|it| it.finish()) else {
            return;
        };
        link.http = made.session.is_none().then(Box::default);
        link.session = made.session;
        link.scanner = made.scanner;
        link.tls = made.tls;
        link.peer = Some(Box::new(made.peer));
        link.marks = made.marks;
        self.on_connected(slot, now_ns);
    }

    /// The connection is there.
    fn on_connected(&mut self, slot: usize, now_ns: u64) {
        self.leave_gate(slot);
        let link = &mut self.links[slot];
        link.doing = Doing::Idle;
        link.timer = link.timer.wrapping_add(1);
        link.failures = 0;
        link.uses = 0;
        link.dormant = false;
        let (group, pooled, pool) = (link.group, link.pooled, link.pool());
        let again = if pooled {
            lock(self.shared.pool(pool)).opened()
        } else {
            link.again
        };
        let times = self.links[slot].marks.times(now_ns);
        self.links[slot].heard_ns = now_ns;
        self.tally.groups[group].connected(&times, again);
        self.shared.health.up();
        if let Some(command) = self.links[slot].pending.take() {
            return self.on_reopened(slot, command, now_ns);
        }
        if pooled {
            self.links[slot].expires_ns = self.expiry_ns(group, now_ns);
            self.release(slot, now_ns);
            lock(self.shared.pool(pool)).arrived();
            self.grow_pool(pool, now_ns);
        } else {
            lock(&self.shared.groups[group].slow_start).succeeded();
            self.go_on_connected(slot, now_ns);
            self.admit(group);
        }
    }

    /// Time at which a pool's connection that is established now expires: at random up to a tenth
    /// before the limit, so that connections are not all replaced at the same time.
    pub(super) fn expiry_ns(&mut self, group: usize, now_ns: u64) -> u64 {
        let Some(lifetime_ns) = self.shared.plan.groups[group].pool.lifetime_ns else {
            return u64::MAX;
        };
        now_ns + lifetime_ns - self.rng.next_u64() % (lifetime_ns / 10 + 1)
    }

    /// The socket has ended.
    pub(super) fn on_closed(&mut self, slot: usize, why: &str) {
        let link = &mut self.links[slot];
        if link.http.is_some() {
            return self.on_http_closed(slot, why);
        }
        if let Some(connecting) = &link.connecting {
            let failure = connecting.on_closed(&self.shared.targets[link.group], why);
            return self.on_connect_error(slot, failure);
        }
        let failure = link.failure.take().unwrap_or_else(|| {
            let silence_ns = monotonic_ns().saturating_sub(link.last_byte_ns());
            if link.is_established() && link.heard_ns != 0 {
                self.tally.groups[link.group].silence.record(silence_ns);
            }
            Failure::own("connection-lost", why)
        });
        self.on_lost(slot, failure);
    }

    /// A connection, or an attempt at one, has failed.
    pub(super) fn on_lost(&mut self, slot: usize, failure: Box<Failure>) {
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        if link.doing == Doing::Dead {
            return self.disconnect(slot, b"");
        }
        let now_ns = monotonic_ns();
        if link.doing == Doing::Validating {
            return self.on_invalid(slot, &failure, now_ns);
        }
        let was_established = link.is_established();
        self.leave_gate(slot);
        let link = &mut self.links[slot];
        let pending = link.pending.take();
        if was_established {
            self.shared.health.down();
        } else {
            self.shared.health.failed(now_ns, &failure.message);
            if pending.is_none() {
                let key = ErrorKey::new(link.group, Place::Connect, failure.code);
                self.tally.error(key, &failure, None);
            }
            self.tally.groups[link.group].connect_failed();
        }
        if let Some(command) = pending {
            // The connection was there before, and its client's request waits for it.
            link.doing = Doing::Statement;
            link.statement.command = command;
        }
        let was_established = was_established || pending.is_some();
        let busy = link.client.as_ref().is_some_and(|client| client.open);
        if was_established && busy {
            self.fail_lost(slot, &failure);
        } else if was_established {
            self.count_error(slot, &failure, false, false);
            self.abort_if_asked(slot, &failure);
        }
        let link = &mut self.links[slot];
        link.failure = None;
        link.timer = link.timer.wrapping_add(1);
        let pooled = link.pooled;
        self.disconnect(slot, b"");
        if pooled {
            self.lose_pooled(slot, was_established, now_ns);
        } else {
            self.lose_own(slot, was_established, now_ns);
        }
    }

    /// A client's own connection: pauses, then tries again. The client's next transaction is due
    /// now and waits.
    fn lose_own(&mut self, slot: usize, was_established: bool, now_ns: u64) {
        self.rest_no_more(slot);
        let pause_ns = self.pause_ns(self.links[slot].failures.saturating_add(1));
        let link = &mut self.links[slot];
        let mut slow_start = lock(&self.shared.groups[link.group].slow_start);
        if was_established {
            slow_start.slow_down();
        } else {
            slow_start.failed(now_ns + pause_ns);
            let turn = Timer::Turn(link.group);
            self.timers.push(Reverse((now_ns + pause_ns, turn)));
        }
        drop(slow_start);
        link.doing = Doing::Pausing;
        if was_established {
            link.again = true;
            link.asked_ns = now_ns;
        }
        link.failures = link.failures.saturating_add(1);
        let Some(client) = link.client.as_deref() else {
            return;
        };
        let open = client.open;
        if self.stop_at_ns.is_some() {
            return;
        }
        let group = client.group;
        if !open && self.shared.groups[group].retire(client) {
            return self.discard(slot);
        }
        let rests = self.shared.groups[group].rests;
        if was_established && !open && !rests && client.think_until_ns <= now_ns {
            self.begin(slot, now_ns);
        }
        self.set_timer(slot, now_ns + pause_ns);
    }

    fn lose_pooled(&mut self, slot: usize, was_established: bool, now_ns: u64) {
        let (id, link_ref) = (self.links[slot].pool(), self.link_ref(slot));
        let client = self.links[slot].client.take();
        let shared = std::sync::Arc::clone(&self.shared);
        let mut pool = lock(shared.pool(id));
        if !was_established {
            let failures = pool.opening_failed();
            pool.pause_until(now_ns + self.pause_ns(failures));
        } else if client.is_some() || pool.take_idle(link_ref) {
            pool.lost();
        } else {
            // Granted to a client that is on its way here.
            self.links[slot].doing = Doing::Dead;
            return;
        }
        drop(pool);
        self.discard(slot);
        if let Some(client) = client {
            self.after_transaction(client, now_ns);
        }
        self.grow_pool(id, now_ns);
    }

    /// Closes a connection on purpose and frees its place.
    pub(super) fn close(&mut self, slot: usize) {
        let link = &mut self.links[slot];
        if link.is_established() {
            self.shared.health.down();
        }
        let mut farewell = std::mem::take(&mut self.out);
        if let Some(session) = &mut link.session {
            session.terminate(&mut farewell);
        }
        if let Some(tls) = &mut link.tls {
            tls.seal(&mut farewell);
            tls.say_goodbye(&mut farewell);
        }
        self.disconnect(slot, &farewell);
        farewell.clear();
        self.out = farewell;
        self.discard(slot);
    }

    fn disconnect(&mut self, slot: usize, farewell: &[u8]) {
        self.reactor.close(slot, farewell);
        self.links[slot].disconnect();
    }

    /// Frees the place of a connection that is not connected, after this pass.
    pub(super) fn discard(&mut self, slot: usize) {
        self.leave_gate(slot);
        let link = &mut self.links[slot];
        link.doing = Doing::Pausing;
        link.timer = link.timer.wrapping_add(1);
        link.client = None;
        self.freed.push(slot);
    }

    /// Pause before connecting again after `failures` failures in a row: doubled each time up to a
    /// limit, and at random between half of that and all of it.
    pub(super) fn pause_ns(&mut self, failures: u32) -> u64 {
        let plan = &self.shared.plan;
        let doubled = plan
            .backoff_ns_min
            .saturating_mul(1 << failures.saturating_sub(1).min(30));
        let most = doubled.min(plan.backoff_ns_max);
        most / 2 + self.rng.next_u64() % (most / 2 + 1)
    }

    pub(super) fn link_ref(&self, slot: usize) -> LinkRef {
        LinkRef {
            thread: self.thread,
            slot,
            id: self.links[slot].id,
        }
    }
}
