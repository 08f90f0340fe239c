//! Clients: coming, waiting for a connection, thinking, and going; and the end of the load.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Timer, Worker};
use crate::acks::Column;
use crate::client::Client;
use crate::link::Doing;
use crate::sys::lock;
use crate::sys::monotonic_ns;

/// Time limit of all cancel requests at the end.
const CANCEL_TIME: Duration = Duration::from_millis(1000);

impl Worker {
    /// Makes the clients that are wanted, are this thread's by number, and do not exist.
    pub(super) fn spawn_clients(&mut self) {
        if self.stop_at_ns.is_some() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        for (group, state) in shared.groups.iter().enumerate() {
            for (id, begun) in state.spawn(self.thread, shared.plan.threads) {
                let plan = &shared.plan.groups[group];
                let client = Box::new(Client::new(id, group, plan).after(begun));
                if !state.shares() && plan.reconnect_every == u64::MAX {
                    self.connect_own(client);
                } else if state.rests {
                    self.rest_alone(client, monotonic_ns());
                } else {
                    self.begin_pooled(client, monotonic_ns());
                }
            }
        }
    }

    /// Gives a client a connection of its own.
    pub(super) fn connect_own(&mut self, client: Box<Client>) {
        let slot = self.new_link(client.group);
        let link = &mut self.links[slot];
        link.asked_ns = monotonic_ns();
        link.client = Some(client);
        self.connect_in_turn(slot);
    }

    /// A client's own connection is there: its transaction starts, or goes on.
    pub(super) fn go_on_connected(&mut self, slot: usize, now_ns: u64) {
        if self.stop_at_ns.is_some() {
            return;
        }
        let link = &mut self.links[slot];
        let Some(client) = &mut link.client else {
            return;
        };
        let state = &self.shared.groups[client.group];
        if client.open {
            let asked_ns = link.asked_ns.max(client.intended_ns);
            client.connect_ns = now_ns.saturating_sub(asked_ns);
            client.granted_ns = now_ns;
            if Self::is_too_late(&self.shared, client, now_ns) {
                Self::skip(&self.shared, &mut self.tally, client);
                self.note_end(slot, Column::Skipped, None, now_ns);
                self.next_transaction(slot, now_ns);
            } else {
                self.run_script(slot, now_ns);
            }
        } else if state.retire(client) {
            self.close(slot);
        } else if state.rests {
            self.rest_connected(slot, now_ns);
        } else if client.think_until_ns > now_ns {
            let until_ns = client.think_until_ns;
            self.set_timer(slot, until_ns);
        } else {
            self.begin(slot, now_ns);
            self.run_script(slot, now_ns);
        }
    }

    /// Opens the next transaction of a connection's client.
    pub(super) fn begin(&mut self, slot: usize, intended_ns: u64) {
        if let Some(client) = &mut self.links[slot].client {
            client.begin(&self.shared.plan.groups[client.group], intended_ns);
            let tally = self.script_tally(slot);
            tally.intended += 1;
            tally.open += 1;
        }
    }

    /// Opens the next transaction of a client without a connection, and gets it one.
    pub(super) fn begin_pooled(&mut self, mut client: Box<Client>, intended_ns: u64) {
        self.open_transaction(&mut client, intended_ns);
        self.acquire(client, intended_ns);
    }

    pub(super) fn open_transaction(&mut self, client: &mut Client, intended_ns: u64) {
        let plan = &self.shared.plan;
        client.begin(&plan.groups[client.group], intended_ns);
        let tally = &mut self.tally.scripts[plan.script_of(client).row];
        tally.intended += 1;
        tally.open += 1;
    }

    /// A client's transaction is over: what it, and its connection, do next.
    pub(super) fn next_transaction(&mut self, slot: usize, now_ns: u64) {
        let link = &mut self.links[slot];
        let (group, pooled) = (link.group, link.pooled);
        link.uses += 1;
        let Some(client) = &link.client else { return };
        let waited = client.sent_ns != 0;
        if self.stop_at_ns.is_some() {
            return;
        }
        if self.shared.groups[group].retire(client) {
            link.client = None;
            return if pooled {
                self.release(slot, now_ns)
            } else {
                self.close(slot)
            };
        }
        let think_ns = self.shared.plan.groups[group].think_ns;
        if pooled != self.shared.groups[group].shares() {
            return self.change_kind(slot, now_ns);
        }
        if !pooled && self.is_worn(slot, now_ns) {
            return self.reconnect_later(slot, now_ns);
        }
        if self.shared.groups[group].rests {
            return self.next_arrival(slot, now_ns);
        }
        if pooled {
            return self.next_pooled(slot, think_ns, now_ns);
        }
        if think_ns > 0 {
            return self.think_connected(slot, now_ns + think_ns);
        }
        self.begin(slot, now_ns);
        if waited {
            self.run_script(slot, now_ns);
        } else {
            self.ready.push_back((slot, self.links[slot].id));
        }
    }

    /// A client of an open loop has nothing to do until an arrival is its.
    fn next_arrival(&mut self, slot: usize, now_ns: u64) {
        if !self.links[slot].pooled {
            return self.rest_connected(slot, now_ns);
        }
        let client = self.links[slot].client.take();
        self.release(slot, now_ns);
        if let Some(client) = client {
            self.rest_alone(client, now_ns);
        }
    }

    /// A client's own connection has had its transactions: the next one makes another.
    fn reconnect_later(&mut self, slot: usize, now_ns: u64) {
        let client = self.links[slot].client.take();
        self.close(slot);
        if let Some(client) = client {
            self.after_transaction(client, now_ns);
        }
    }

    fn think_connected(&mut self, slot: usize, until_ns: u64) {
        if let Some(client) = &mut self.links[slot].client {
            client.think_until_ns = until_ns;
        }
        self.set_timer(slot, until_ns);
    }

    /// A client with a connection of its own has thought long enough.
    pub(super) fn end_thinking(&mut self, slot: usize, at_ns: u64) {
        let link = &self.links[slot];
        let Some(client) = link.client.as_ref().filter(|_| self.stop_at_ns.is_none()) else {
            return;
        };
        if self.shared.groups[link.group].retire(client) {
            return self.close(slot);
        }
        self.begin(slot, at_ns);
        self.run_script(slot, monotonic_ns());
    }

    /// A client without a connection, between two transactions: thinks, begins the next, or ends.
    pub(super) fn after_transaction(&mut self, mut client: Box<Client>, now_ns: u64) {
        if self.stop_at_ns.is_some() || self.shared.groups[client.group].retire(&client) {
            return;
        }
        if self.shared.groups[client.group].rests {
            return self.rest_alone(client, now_ns);
        }
        let think_ns = self.shared.plan.groups[client.group].think_ns;
        if think_ns == 0 {
            return self.begin_pooled(client, now_ns);
        }
        client.think_until_ns = now_ns + think_ns;
        let until_ns = client.think_until_ns;
        let index = self.thinkers.insert(client);
        self.timers.push(Reverse((until_ns, Timer::Thinker(index))));
    }

    /// Once stopped: says so when nothing is under way any more; at the last moment cuts off what
    /// is.
    pub(super) fn check_drained(&mut self) {
        let Some(stop_at_ns) = self.stop_at_ns.filter(|_| !self.reported_drained) else {
            return;
        };
        if self.flying > 0 && monotonic_ns() < stop_at_ns {
            return;
        }
        self.cancel_flying();
        self.reported_drained = true;
        self.shared.drained.fetch_add(1, Ordering::AcqRel);
    }

    fn cancel_flying(&mut self) {
        let until = Instant::now() + CANCEL_TIME;
        let slots: Vec<usize> = self.links.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let link = &self.links[slot];
            if !link
                .client
                .as_ref()
                .is_some_and(|client| client.open && client.sent_ns != 0)
            {
                continue;
            }
            let key = link.session.as_ref().map(|session| session.key().clone());
            let (peer, group) = (link.peer.clone(), link.group);
            self.script_tally(slot).cancelled += 1;
            self.note_end(slot, Column::Cancelled, None, monotonic_ns());
            self.close_transaction(slot);
            self.links[slot].doing = Doing::Dead;
            let left = until.saturating_duration_since(Instant::now());
            if let (Some(key), Some(peer), false) = (key, peer, left.is_zero()) {
                // Best effort: the server also notices that the connection is gone, only later.
                let _ = self.shared.targets[group].cancel(&peer, &key, left);
            }
        }
    }

    /// The end: closes connections, counts by script what was never sent, reports.
    pub(super) fn exit(mut self) {
        self.follow_interval();
        let clients = self
            .links
            .iter()
            .filter_map(|(_, link)| link.client.as_deref());
        let waiting = self.shared.plan.count_open(clients);
        let slots: Vec<usize> = self.links.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.close(slot);
        }
        self.log_skips();
        self.write_acks(monotonic_ns(), true);
        self.write_log(monotonic_ns(), true);
        self.submit();
        lock(&self.shared.collector).add_waiting(&waiting);
    }
}
