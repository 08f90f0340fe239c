//! Connections: being made, lost, made again, and closed.

use std::io;

use pgdyno_wire::{Channel, Session};

use super::Worker;
use crate::link::{Doing, Failure, Link};
use crate::pool::LinkRef;
use crate::shared::lock;
use crate::sys::monotonic_ns;
use crate::tally::{ErrorKey, Place};
use crate::times::ConnectMarks;

impl Worker {
    /// A place for a connection.
    pub(super) fn new_link(&mut self, group: usize, pooled: bool) -> usize {
        self.next_link_id += 1;
        self.links
            .insert(Link::new(self.next_link_id, group, pooled))
    }

    /// Begins to connect: past the gate.
    pub(super) fn begin_connecting(&mut self, slot: usize) {
        let began_ns = monotonic_ns();
        self.links[slot].doing = Doing::Connecting;
        self.links[slot].marks = ConnectMarks {
            began_ns,
            ..ConnectMarks::default()
        };
        self.set_timer(slot, began_ns + self.shared.plan.connect_timeout_ns);
        let opened = self
            .shared
            .target
            .connect()
            .and_then(|stream| self.reactor.open(slot, stream));
        if let Err(error) = opened {
            self.on_unreachable(slot, &error);
        }
    }

    /// The socket is connected, or failed to be: logs in.
    pub(super) fn start_session(&mut self, slot: usize, connected: io::Result<()>) {
        if let Err(error) = connected {
            return self.on_unreachable(slot, &error);
        }
        let link = &mut self.links[slot];
        link.marks.socket_ns = monotonic_ns();
        match Session::start(&self.shared.target.identity, Channel::Clear, &mut self.out) {
            Ok(session) => {
                link.session = Some(session);
                self.send(slot);
            }
            Err(error) => self.on_lost(slot, Failure::own("protocol-error", error.to_string())),
        }
    }

    fn on_unreachable(&mut self, slot: usize, error: &io::Error) {
        let message = self.shared.target.explain(error);
        self.on_lost(slot, Failure::own("connect-failed", message));
    }

    /// Log-in is over.
    pub(super) fn on_connected(&mut self, slot: usize, now_ns: u64) {
        self.leave_gate(slot);
        let link = &mut self.links[slot];
        link.doing = Doing::Idle;
        link.timer = link.timer.wrapping_add(1);
        link.failures = 0;
        let (group, pooled) = (link.group, link.pooled);
        let again = if pooled {
            lock(&self.shared.groups[group].pool).opened()
        } else {
            link.again
        };
        let times = self.links[slot].marks.times(now_ns);
        self.tally.groups[group].connected(&times, again);
        self.shared.health.up();
        if pooled {
            self.release(slot, now_ns);
            self.grow_pool(group, now_ns);
        } else {
            self.go_on_connected(slot, now_ns);
        }
    }

    /// The socket has ended.
    pub(super) fn on_closed(&mut self, slot: usize, why: &str) {
        let failure = self.links[slot].failure.take();
        let code = if self.links[slot].doing == Doing::Connecting {
            "connect-failed"
        } else {
            "connection-lost"
        };
        self.on_lost(slot, failure.unwrap_or_else(|| Failure::own(code, why)));
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
        let was_established = link.is_established();
        self.leave_gate(slot);
        let link = &mut self.links[slot];
        if was_established {
            self.shared.health.down();
        } else {
            self.shared.health.failed(now_ns, &failure.message);
            let place = Place::Connect;
            let key = ErrorKey {
                group: link.group,
                place,
                code: failure.code,
                expected: false,
                retried: false,
            };
            self.tally.error(key, &failure.message);
            self.tally.groups[link.group].connect_failed();
        }
        let busy = link.client.as_ref().is_some_and(|client| client.open);
        if was_established && busy {
            self.fail_lost(slot, &failure);
        } else if was_established {
            self.count_error(slot, &failure, false, false);
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
        let link = &mut self.links[slot];
        link.doing = Doing::Pausing;
        link.again |= was_established;
        link.failures = link.failures.saturating_add(1);
        let failures = link.failures;
        let Some(client) = link.client.as_deref() else {
            return;
        };
        let open = client.open;
        if self.stop_at_ns.is_some() {
            return;
        }
        if !open && self.shared.groups[client.group].retire(client) {
            return self.discard(slot);
        }
        let closed_loop = self.shared.groups[client.group].arrivals.is_none();
        if was_established && !open && closed_loop && client.think_until_ns <= now_ns {
            self.begin(slot, now_ns);
        }
        let pause_ns = self.pause_ns(failures);
        self.set_timer(slot, now_ns + pause_ns);
    }

    fn lose_pooled(&mut self, slot: usize, was_established: bool, now_ns: u64) {
        let (group, link_ref) = (self.links[slot].group, self.link_ref(slot));
        let client = self.links[slot].client.take();
        let shared = std::sync::Arc::clone(&self.shared);
        let mut pool = lock(&shared.groups[group].pool);
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
        self.grow_pool(group, now_ns);
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

    /// How long to wait before connecting again, after so many failures in a row: doubled each
    /// time up to a limit, of which between a half and the whole, by chance.
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
