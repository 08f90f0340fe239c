//! Clients and the connections of their instance's pool: who gets which, which are opened, validated,
//! handed on, and closed.

use std::cmp::Reverse;
use std::sync::{Arc, Mutex};

use pgdyno_wire::TransactionStatus;

use super::{PoolTimers, Timer, Worker};
use crate::acks::Column;
use crate::client::Client;
use crate::failure::Failure;
use crate::link::Doing;
use crate::pool::{Grant, LinkRef, Pool, PoolId};
use crate::shared::Mail;
use crate::sys::lock;
use crate::sys::monotonic_ns;
use crate::tally::{ErrorKey, Place};

impl Worker {
    /// Gets a client with an open transaction a connection of the pool, or puts it into the queue.
    pub(super) fn acquire(&mut self, mut client: Box<Client>, now_ns: u64) {
        let group = client.group;
        if !self.shared.groups[group].shares() {
            return self.connect_own(client);
        }
        if client.queued_ns == 0 {
            client.queued_ns = now_ns;
        }
        let deadline_ns = client.queued_ns + self.shared.plan.groups[group].pool.wait_ns_max;
        let pool = self.shared.pool_of(&client);
        let grant = lock(self.shared.pool(pool)).acquire(self.thread, client, deadline_ns);
        self.settle(pool, grant, deadline_ns, now_ns);
    }

    /// A client that got an unusable connection goes on waiting, before all others.
    fn acquire_again(&mut self, client: Box<Client>, now_ns: u64) {
        let group = client.group;
        if !self.shared.groups[group].shares() {
            return self.connect_own(client);
        }
        let deadline_ns = client.queued_ns + self.shared.plan.groups[group].pool.wait_ns_max;
        let pool = self.shared.pool_of(&client);
        let grant = lock(self.shared.pool(pool)).acquire_again(self.thread, client, deadline_ns);
        self.settle(pool, grant, deadline_ns, now_ns);
    }

    fn settle(&mut self, pool: PoolId, grant: Grant, deadline_ns: u64, now_ns: u64) {
        let mut grow = self.shared.plan.groups[pool.group].pool.idle_min > 0;
        match grant {
            Grant::Link(link, client) if link.thread == self.thread => self.take_over(link, client),
            Grant::Link(link, client) => {
                self.shared.mailboxes[link.thread].post(Mail::Handover(link, client));
            }
            Grant::Queued => {
                self.watch_queue(pool, deadline_ns);
                grow = true;
            }
        }
        if grow {
            self.grow_pool(pool, now_ns);
        }
    }

    /// A client got a connection of this thread.
    pub(super) fn take_over(&mut self, link: LinkRef, client: Box<Client>) {
        let now_ns = monotonic_ns();
        let slot = link.slot;
        if self
            .links
            .get(slot)
            .is_some_and(|here| here.id == link.id && here.doing == Doing::Idle)
        {
            return match self.unless_late(client, now_ns) {
                Some(client) if self.is_doubtful(slot, now_ns) => self.validate(slot, client),
                Some(client) => self.start_on(slot, client, now_ns),
                None => self.release(slot, now_ns),
            };
        }
        // Lost in the meantime: the client goes on waiting.
        let pool = self.shared.pool_of(&client);
        lock(self.shared.pool(pool)).lost();
        self.discard(slot);
        self.acquire_again(client, now_ns);
    }

    /// True if a connection has been idle for so long that it must be validated first.
    fn is_doubtful(&self, slot: usize, now_ns: u64) -> bool {
        let link = &self.links[slot];
        let idle_ns = now_ns.saturating_sub(link.idle_since_ns);
        let validation = &self.shared.plan.groups[link.group].pool.validation;
        validation
            .as_ref()
            .is_some_and(|(_, after_ns)| idle_ns >= *after_ns)
    }

    /// Asks whether a connection is still good, for the client that is to get it.
    fn validate(&mut self, slot: usize, client: Box<Client>) {
        let pool = &self.shared.plan.groups[client.group].pool;
        let deadline_ns = client.queued_ns + pool.wait_ns_max;
        let link = &mut self.links[slot];
        link.doing = Doing::Validating;
        link.client = Some(client);
        if let (Some(session), Some((query, _))) = (&mut link.session, &pool.validation) {
            // Without zeros in it, which was checked, it can always be sent.
            let _ = session.query(query.as_bytes(), &mut self.out);
        }
        self.set_timer(slot, deadline_ns);
        self.send(slot);
    }

    /// The validation query was answered.
    pub(super) fn on_validated(&mut self, slot: usize, now_ns: u64) {
        let link = &mut self.links[slot];
        if let Some(failure) = link.failure.take() {
            return self.on_invalid(slot, &failure, now_ns);
        }
        if link.status != TransactionStatus::Idle {
            let message = "the validation query left a transaction open";
            return self.on_invalid(slot, &Failure::own("validation-failed", message), now_ns);
        }
        link.doing = Doing::Idle;
        link.timer = link.timer.wrapping_add(1);
        let Some(client) = link.client.take() else {
            return;
        };
        match self.unless_late(client, now_ns) {
            Some(client) => self.start_on(slot, client, now_ns),
            None => self.release(slot, now_ns),
        }
    }

    /// A connection is no longer good: another takes its place, and its client goes on waiting.
    pub(super) fn on_invalid(&mut self, slot: usize, failure: &Failure, now_ns: u64) {
        let client = self.links[slot].client.take();
        self.count_error(slot, failure, false, false);
        let pool = self.links[slot].pool();
        lock(self.shared.pool(pool)).lost();
        self.close(slot);
        if let Some(client) = client {
            self.acquire_again(client, now_ns);
        }
        self.grow_pool(pool, now_ns);
    }

    /// Starts a client's open transaction on an idle connection.
    fn start_on(&mut self, slot: usize, mut client: Box<Client>, now_ns: u64) {
        client.granted_ns = now_ns;
        self.links[slot].client = Some(client);
        if self.stop_at_ns.is_none() {
            self.run_script(slot, now_ns);
        }
    }

    /// The connection goes to the one that waits longest; its client thinks, or queues up behind them.
    pub(super) fn next_pooled(&mut self, slot: usize, think_ns: u64, now_ns: u64) {
        let pool = self.links[slot].pool();
        let Some(mut client) = self.links[slot].client.take() else {
            return;
        };
        let worn = self.is_worn(slot, now_ns);
        if think_ns > 0 || worn || lock(self.shared.pool(pool)).is_over() {
            self.release(slot, now_ns);
            return self.after_transaction(client, now_ns);
        }
        let waited = client.sent_ns != 0;
        self.open_transaction(&mut client, now_ns);
        client.queued_ns = now_ns;
        let deadline_ns = now_ns + self.shared.plan.groups[pool.group].pool.wait_ns_max;
        let first = lock(self.shared.pool(pool)).pass_on(client, deadline_ns);
        self.follow_interval();
        self.watch_queue(pool, deadline_ns);
        if waited {
            return self.start_on(slot, first, now_ns);
        }
        let link = &mut self.links[slot];
        link.client = Some(first);
        self.ready.push_back((slot, link.id));
    }

    /// A pooled connection is free: it goes to the first client in the queue, or is idle, or is
    /// closed if there are too many.
    pub(super) fn release(&mut self, slot: usize, now_ns: u64) {
        let link_ref = self.link_ref(slot);
        let id = self.links[slot].pool();
        let shared = Arc::clone(&self.shared);
        let worn = self.is_worn(slot, now_ns);
        self.links[slot].idle_since_ns = now_ns;
        loop {
            let mut pool = lock(shared.pool(id));
            if worn || pool.is_over() {
                pool.closed();
                drop(pool);
                self.close(slot);
                return self.grow_pool(id, now_ns);
            }
            let first = pool.release(link_ref);
            drop(pool);
            let Some(client) = first else { return };
            self.follow_interval();
            if let Some(client) = self.unless_late(client, now_ns) {
                return self.start_on(slot, client, now_ns);
            }
        }
    }

    /// The group got pools, or lost them: a client's own connection becomes one of its pool as far as
    /// there is room, and the other way round.
    pub(super) fn change_kind(&mut self, slot: usize, now_ns: u64) {
        if self.links[slot].pooled {
            lock(self.shared.pool(self.links[slot].pool())).closed();
            self.links[slot].pooled = false;
            return self.go_on_connected(slot, now_ns);
        }
        let Some(client) = self.links[slot].client.take() else {
            return;
        };
        let pool = self.shared.pool_of(&client);
        lock(self.shared.pool(pool)).adopt();
        self.links[slot].join(pool);
        self.links[slot].expires_ns = self.expiry_ns(pool.group, now_ns);
        self.release(slot, now_ns);
        self.after_transaction(client, now_ns);
    }

    /// The pools' limit changed: idle connections above it go, waiting clients may get new ones;
    /// without pools, each of them gets its own.
    pub(super) fn pool_changed(&mut self, group: usize) {
        let now_ns = monotonic_ns();
        let shared = Arc::clone(&self.shared);
        for pool in &shared.groups[group].pools {
            while let Some(link) = { lock(pool).take_surplus(self.thread) } {
                self.close(link.slot);
            }
        }
        if shared.groups[group].shares() {
            self.share_free(group, now_ns);
            return shared
                .pools_of(group)
                .for_each(|pool| self.grow_pool(pool, now_ns));
        }
        for pool in &shared.groups[group].pools {
            while let Some(client) = { lock(pool).take_first() } {
                self.follow_interval();
                if self.stop_at_ns.is_none() {
                    self.connect_own(client);
                }
            }
        }
    }

    /// Has connections opened for the clients that wait, as far as allowed.
    pub(super) fn grow_pool(&mut self, id: PoolId, now_ns: u64) {
        if self.stop_at_ns.is_some() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let pool = shared.pool(id);
        while let Some(thread) = { lock(pool).begin_opening(shared.plan.threads, now_ns) } {
            if thread == self.thread {
                self.open_pooled(id);
            } else {
                shared.mailboxes[thread].post(Mail::OpenPooled(id));
            }
        }
        let opens_at_ns = lock(pool).opens_at_ns();
        if let Some(at_ns) = opens_at_ns.filter(|at_ns| *at_ns > now_ns)
            && !self.timers_of(id).open
        {
            self.timers_of(id).open = true;
            self.timers.push(Reverse((at_ns, Timer::PoolOpen(id))));
        }
    }

    /// Opens one connection for a pool, which counts as being opened already.
    pub(super) fn open_pooled(&mut self, pool: PoolId) {
        let slot = self.new_link(pool.group);
        self.links[slot].join(pool);
        self.connect(slot);
    }

    fn watch_queue(&mut self, pool: PoolId, deadline_ns: u64) {
        if !self.timers_of(pool).wait {
            self.timers_of(pool).wait = true;
            self.timers
                .push(Reverse((deadline_ns, Timer::PoolWait(pool))));
        }
    }

    /// The timers that are set for a pool.
    pub(super) fn timers_of(&mut self, pool: PoolId) -> &mut PoolTimers {
        &mut self.pool_timers[pool.group][pool.instance]
    }

    /// True if a connection must be replaced: it is too old, or was used often enough.
    pub(super) fn is_worn(&self, slot: usize, now_ns: u64) -> bool {
        let link = &self.links[slot];
        let most = self.shared.plan.groups[link.group].reconnect_every;
        link.uses >= most || (link.pooled && now_ns >= link.expires_ns)
    }

    /// The load begins: opens what pools are to have idle, and looks after old connections.
    pub(super) fn start_pools(&mut self, now_ns: u64) {
        for group in 0..self.shared.groups.len() {
            if self.thread == 0 {
                let pools = self.shared.pools_of(group);
                pools.for_each(|pool| self.grow_pool(pool, now_ns));
            }
            if let Some(every_ns) = self.shared.plan.groups[group].pool.sweep_ns() {
                self.timers
                    .push(Reverse((now_ns + every_ns, Timer::PoolSweep(group))));
            }
        }
    }

    /// Closes idle connections of this thread that are too old, or have been idle for too long.
    pub(super) fn sweep_pool(&mut self, group: usize, now_ns: u64) {
        let shared = Arc::clone(&self.shared);
        let (plan, pools) = (&shared.plan.groups[group].pool, &shared.groups[group].pools);
        let Some(every_ns) = plan.sweep_ns().filter(|_| self.stop_at_ns.is_none()) else {
            return;
        };
        let old = |link: &LinkRef| self.links[link.slot].expires_ns <= now_ns;
        let unused = |link: &LinkRef| {
            let idle_ns = now_ns.saturating_sub(self.links[link.slot].idle_since_ns);
            plan.idle_ns_max.is_some_and(|most_ns| idle_ns > most_ns)
        };
        let mut gone: Vec<usize> = Vec::new();
        for pool in pools {
            gone.extend(take_all(pool, self.thread, false, old));
            gone.extend(take_all(pool, self.thread, true, unused));
        }
        for slot in gone {
            self.close(slot);
        }
        for pool in shared.pools_of(group) {
            self.grow_pool(pool, now_ns);
        }
        self.timers
            .push(Reverse((now_ns + every_ns, Timer::PoolSweep(group))));
    }

    /// Clients that waited too long for a connection: their transactions fail.
    pub(super) fn expire_waiters(&mut self, id: PoolId, now_ns: u64) {
        if self.stop_at_ns.is_some() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let (pool, group) = (shared.pool(id), id.group);
        while let Some(mut client) = { lock(pool).take_expired(now_ns) } {
            self.follow_interval();
            let place = Place::Script(client.script, None);
            let failure = Failure::own(
                "pool-timeout",
                "no connection of the pool became free in time",
            );
            let key = ErrorKey::new(group, place, failure.code);
            self.tally.error(key, &failure, Some(client.id));
            self.note_unsent(&client, Column::Failed, Some(failure.code));
            if shared.plan.exit_on_abort {
                let who = shared.plan.client_in_words(&client);
                shared.abort(&who, &failure, now_ns);
            }
            let tally = &mut self.tally.scripts[shared.plan.script_of(&client).row];
            tally.failed += 1;
            tally.open -= 1;
            client.open = false;
            shared.groups[group].transaction_ended();
            self.after_transaction(client, now_ns);
        }
        let next = lock(pool).next_deadline_ns();
        if let Some(deadline_ns) = next {
            self.watch_queue(id, deadline_ns);
        }
    }
}

/// Takes out of a pool what is idle and `is_old`; its places among the connections of `thread`.
fn take_all(
    pool: &Mutex<Pool>,
    thread: usize,
    spare: bool,
    is_old: impl Fn(&LinkRef) -> bool,
) -> Vec<usize> {
    let mut pool = lock(pool);
    std::iter::from_fn(|| pool.take_old(thread, spare, &is_old))
        .map(|link| link.slot)
        .collect()
}
