//! Open loop: clients that have nothing to do, and the arrivals that they take.
//!
//! A thread keeps its free clients in the order in which they became free, so that all have their
//! turn. What they take comes from the group's queue of arrivals, which all threads share; a timer
//! per group is set to the arrival that the thread holds.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};

use super::{Timer, Worker};
use crate::acks::Column;
use crate::arrival::{Arrival, Queue, Turn};
use crate::client::Client;
use crate::shared::{Mail, Shared};
use crate::sys::lock;
use crate::sys::monotonic_ns;
use crate::tally::Tally;

/// Arrivals that clients of one group start before the thread looks after others again.
const STARTS_MAX: usize = 1000;

/// A client that has nothing to do.
#[derive(Debug)]
enum Free {
    /// On its own connection, by its index and the ticket that it carries as long as this is so.
    Connected(usize, u64),
    /// Without a connection.
    Alone(Box<Client>),
}

/// A group's clients that have nothing to do, in one thread.
#[derive(Debug, Default)]
pub struct FreeClients {
    queue: VecDeque<Free>,
    /// Their number: fewer than entries, for those of lost connections stay until they are
    /// met.
    count: usize,
    tickets: u64,
    /// The time to which the group's timer is set.
    wakes_ns: Option<u64>,
    /// Being served already, further up the stack.
    busy: bool,
}

impl Worker {
    /// A client on its own connection has nothing to do.
    pub(super) fn rest_connected(&mut self, slot: usize, now_ns: u64) {
        let link = &mut self.links[slot];
        let group = link.group;
        let Some(client) = &mut link.client else {
            return;
        };
        client.granted_ns = now_ns;
        let free = &mut self.free[group];
        free.tickets += 1;
        link.ticket = free.tickets;
        free.queue.push_back(Free::Connected(slot, free.tickets));
        self.came_free(group);
    }

    /// A client without a connection has nothing to do.
    pub(super) fn rest_alone(&mut self, mut client: Box<Client>, now_ns: u64) {
        let group = client.group;
        client.granted_ns = now_ns;
        self.free[group].queue.push_back(Free::Alone(client));
        self.came_free(group);
    }

    fn came_free(&mut self, group: usize) {
        self.free[group].count += 1;
        if let Some(mut queue) = arrivals(&self.shared, group) {
            queue.freed(monotonic_ns());
        }
        self.take_arrivals(group);
    }

    /// Handle the timer of a group's arrivals.
    pub(super) fn on_arrival(&mut self, group: usize, at_ns: u64) {
        if self.free[group].wakes_ns == Some(at_ns) {
            self.free[group].wakes_ns = None;
            self.take_arrivals(group);
        }
    }

    /// Gives free clients of a group what is due, and sets the timer to what is next.
    pub(super) fn take_arrivals(&mut self, group: usize) {
        if self.stop_at_ns.is_some() || std::mem::replace(&mut self.free[group].busy, true) {
            return;
        }
        let again_ns = self.start_due(group);
        let free = &mut self.free[group];
        free.busy = false;
        if again_ns != free.wakes_ns {
            free.wakes_ns = again_ns;
            if let Some(at_ns) = again_ns {
                self.timers.push(Reverse((at_ns, Timer::Arrival(group))));
            }
        }
    }

    /// Starts what is due; returns when to look again.
    fn start_due(&mut self, group: usize) -> Option<u64> {
        let shared = Arc::clone(&self.shared);
        for _ in 0..STARTS_MAX {
            let count = self.free[group].count;
            if count == 0 && self.free[group].wakes_ns.is_none() {
                return None;
            }
            let mut queue = arrivals(&shared, group)?;
            if count == 0 {
                if queue.give_back(self.thread) {
                    drop(queue);
                    self.tell_others(group);
                }
                return None;
            }
            let now_ns = monotonic_ns();
            let turn = queue.turn(self.thread, count, now_ns);
            drop(queue);
            // It may belong to the next interval already.
            self.follow_interval();
            match turn {
                Turn::Start(arrival) => self.start_free(group, arrival, now_ns),
                Turn::Wait(at_ns) => return Some(at_ns),
                Turn::Nothing => return None,
            }
        }
        Some(monotonic_ns())
    }

    fn tell_others(&self, group: usize) {
        for (thread, mailbox) in self.shared.mailboxes.iter().enumerate() {
            if thread != self.thread {
                mailbox.post(Mail::Arrivals(group));
            }
        }
    }

    /// The client that has been free for longest takes an arrival.
    fn start_free(&mut self, group: usize, arrival: Arrival, now_ns: u64) {
        self.free[group].count -= 1;
        while let Some(free) = self.free[group].queue.pop_front() {
            match free {
                Free::Alone(mut client) => {
                    Self::open_arrival(&mut client, arrival);
                    return self.acquire(client, now_ns);
                }
                Free::Connected(slot, ticket) => {
                    let link = self.links.get_mut(slot);
                    let Some(link) = link.filter(|link| link.has_ticket(group, ticket)) else {
                        continue;
                    };
                    link.ticket = 0;
                    if let Some(mut client) = link.client.take() {
                        Self::open_arrival(&mut client, arrival);
                        self.links[slot].client = Some(client);
                    }
                    return self.run_script(slot, now_ns);
                }
            }
        }
    }

    /// A client's transaction is the arrival; it was counted as intended when it became due.
    fn open_arrival(client: &mut Client, arrival: Arrival) {
        let free_ns = client.granted_ns;
        client.open_script(arrival.script, arrival.intended_ns);
        client.granted_ns = free_ns.max(arrival.intended_ns);
    }

    /// True if a client's transaction, which was not sent yet, is later than it may be.
    pub(super) fn is_too_late(shared: &Shared, client: &Client, now_ns: u64) -> bool {
        let limit_ns = shared.plan.groups[client.group].latency_limit_ns;
        let open_loop = shared.groups[client.group].arrivals.is_some();
        open_loop && now_ns.saturating_sub(client.intended_ns) > limit_ns && client.sent_ns == 0
    }

    /// Gives up a client's transaction before it is sent.
    pub(super) fn skip(shared: &Shared, tally: &mut Tally, client: &mut Client) {
        client.open = false;
        shared.groups[client.group].transaction_ended();
        let tally = &mut tally.scripts[shared.plan.script_of(client).row];
        tally.skipped += 1;
        tally.open -= 1;
    }

    /// A client without a connection could have one now: `None` if its transaction is too late to
    /// be sent and the client does something else.
    pub(super) fn unless_late(
        &mut self,
        mut client: Box<Client>,
        now_ns: u64,
    ) -> Option<Box<Client>> {
        if !Self::is_too_late(&self.shared, &client, now_ns) {
            return Some(client);
        }
        Self::skip(&self.shared, &mut self.tally, &mut client);
        self.note_unsent(&client, Column::Skipped, None);
        self.after_transaction(client, now_ns);
        None
    }

    /// The connection of a client that has nothing to do is lost, or about to be closed.
    pub(super) fn rest_no_more(&mut self, slot: usize) {
        let link = &mut self.links[slot];
        if std::mem::take(&mut link.ticket) == 0 {
            return;
        }
        let group = link.group;
        self.leave_free(group, 1);
    }

    /// So many clients that had nothing to do are no longer among those who can take arrivals.
    fn leave_free(&mut self, group: usize, clients: usize) {
        self.free[group].count -= clients;
        if let Some(mut queue) = arrivals(&self.shared, group) {
            queue.left(clients);
        }
        self.take_arrivals(group);
    }

    /// The number of clients fell: those that have nothing to do and are too many end.
    pub(super) fn retire_free(&mut self) {
        let shared = Arc::clone(&self.shared);
        for (group, state) in shared.groups.iter().enumerate() {
            let mut queue = std::mem::take(&mut self.free[group].queue);
            let mut gone = 0;
            queue.retain(|free| match free {
                Free::Alone(client) => {
                    let goes = state.retire(client);
                    gone += usize::from(goes);
                    !goes
                }
                Free::Connected(slot, ticket) => {
                    let link = self.links.get_mut(*slot);
                    let Some(link) = link.filter(|link| link.has_ticket(group, *ticket)) else {
                        return false;
                    };
                    let goes = link.client.as_ref().is_some_and(|c| state.retire(c));
                    if goes {
                        gone += 1;
                        link.ticket = 0;
                        self.close(*slot);
                    }
                    !goes
                }
            });
            self.free[group].queue = queue;
            if gone > 0 {
                self.leave_free(group, gone);
            }
        }
    }

    /// The group got pools: the connections of clients that have nothing to do become theirs.
    pub(super) fn share_free(&mut self, group: usize, now_ns: u64) {
        let shared = Arc::clone(&self.shared);
        let mut adopted = Vec::new();
        for free in &mut self.free[group].queue {
            let Free::Connected(slot, ticket) = *free else {
                continue;
            };
            let link = self.links.get_mut(slot);
            let Some(link) = link.filter(|link| link.has_ticket(group, ticket)) else {
                continue;
            };
            if let Some(client) = link.client.take() {
                let pool = shared.pool_of(&client);
                link.ticket = 0;
                link.join(pool);
                lock(shared.pool(pool)).adopt();
                *free = Free::Alone(client);
                adopted.push(slot);
            }
        }
        for slot in adopted {
            self.links[slot].expires_ns = self.expiry_ns(group, now_ns);
            self.release(slot, now_ns);
        }
    }
}

/// The queue of a group that is an open loop.
fn arrivals(shared: &Shared, group: usize) -> Option<MutexGuard<'_, Queue>> {
    shared.groups[group].arrivals.as_ref().map(lock)
}
