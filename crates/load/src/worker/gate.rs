//! Connections on their way: so many at once, the others wait for their turn.
//!
//! Ten thousand authentications at once take longer than the same in sequence: queues of listening
//! sockets overflow, a pooler checks passwords one after the other, and all of them time out and
//! start again together. Also, after a failure a group's clients come back one, two, four at a
//! time; see [`crate::slow_start`].

use std::collections::VecDeque;

use super::Worker;
use crate::link::Doing;
use crate::pool::LinkRef;
use crate::shared::Mail;
use crate::sys::lock;
use crate::sys::monotonic_ns;

/// A thread's share of the connections that may be on their way.
#[derive(Debug)]
pub(super) struct Gate {
    limit: usize,
    inside: usize,
    /// By index and number, in order.
    queue: VecDeque<(usize, u64)>,
}

impl Gate {
    /// For one of `threads`, of which each lets at least one in; `None` is no limit.
    pub(super) fn new(limit: Option<u32>, threads: usize) -> Self {
        Self {
            limit: limit.map_or(usize::MAX, |limit| (limit as usize / threads).max(1)),
            inside: 0,
            queue: VecDeque::new(),
        }
    }
}

impl Worker {
    /// Connects, unless after a failure others of the group come first.
    pub(super) fn connect_in_turn(&mut self, slot: usize) {
        let link_ref = self.link_ref(slot);
        let link = &self.links[slot];
        if link.pooled
            || lock(&self.shared.groups[link.group].slow_start).enter(link_ref, monotonic_ns())
        {
            self.connect(slot);
        }
    }

    /// A connection that had to wait for its turn may be tried.
    pub(super) fn on_admitted(&mut self, group: usize, link: LinkRef) {
        if self.stop_at_ns.is_some() {
            return;
        }
        let here = self.links.get(link.slot);
        if here.is_some_and(|here| here.id == link.id && here.doing == Doing::Pausing) {
            return self.connect(link.slot);
        }
        lock(&self.shared.groups[group].slow_start).gave_up();
        self.admit(group);
    }

    /// Lets those try to connect that may now.
    pub(super) fn admit(&mut self, group: usize) {
        let now_ns = monotonic_ns();
        while let Some(link) = { lock(&self.shared.groups[group].slow_start).admit(now_ns) } {
            if link.thread == self.thread {
                self.on_admitted(group, link);
            } else {
                self.shared.mailboxes[link.thread].post(Mail::Connect(group, link));
            }
        }
    }

    /// Connects when it is this connection's turn: in the next pass if the gate is open.
    pub(super) fn connect(&mut self, slot: usize) {
        if self.is_load(slot) {
            return self.begin_connecting(slot);
        }
        let link = &mut self.links[slot];
        link.doing = Doing::Pausing;
        self.gate.queue.push_back((slot, link.id));
    }

    /// True if connecting is part of the load: an open transaction of a group whose clients connect
    /// again and again makes this connection. Held back, it would not be the load that was
    /// requested.
    /// After a failure there is a gate for these too.
    fn is_load(&self, slot: usize) -> bool {
        let link = &self.links[slot];
        let connects_again = self.shared.plan.groups[link.group].reconnect_every != u64::MAX;
        let opened_by_transaction = link.client.as_ref().is_some_and(|client| client.open);
        connects_again && opened_by_transaction && link.failures == 0
    }

    /// Lets in as many as may be.
    pub(super) fn pass_gate(&mut self) {
        while self.gate.inside < self.gate.limit {
            let Some((slot, id)) = self.gate.queue.pop_front() else {
                return;
            };
            let Some(link) = self.links.get_mut(slot) else {
                continue;
            };
            let waits = link.id == id && link.doing == Doing::Pausing;
            if waits && self.stop_at_ns.is_none() {
                link.at_gate = true;
                self.gate.inside += 1;
                self.begin_connecting(slot);
            }
        }
    }

    /// An attempt to connect is over, if one was under way.
    pub(super) fn leave_gate(&mut self, slot: usize) {
        if std::mem::take(&mut self.links[slot].at_gate) {
            self.gate.inside -= 1;
        }
    }
}
