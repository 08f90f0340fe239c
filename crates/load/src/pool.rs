//! A pool that clients of a group share: idle connections, and a queue of clients, first come first
//! served. Each instance of the application has its own. Threads share it behind a mutex; connections
//! stay with the thread that opened them.

use std::collections::VecDeque;

use crate::client::Client;

/// A pool of a group: that of one instance of the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolId {
    /// The group.
    pub group: usize,
    /// The instance, by number.
    pub instance: usize,
}

/// A connection, by the thread that owns it and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRef {
    /// The owner.
    pub thread: usize,
    /// Index among the owner's connections.
    pub slot: usize,
    /// Unlike the index never used again.
    pub id: u64,
}

/// A client in the queue.
#[derive(Debug)]
pub struct Waiter {
    /// The client, with an open transaction that was not sent yet.
    pub client: Box<Client>,
    /// Time at which it gives up.
    pub deadline_ns: u64,
}

/// The result of a client's request for a connection.
#[derive(Debug)]
pub enum Grant {
    /// This connection.
    Link(LinkRef, Box<Client>),
    /// A place in the queue.
    Queued,
}

/// A pool.
#[derive(Debug)]
pub struct Pool {
    /// Connections at most; `None` when each client holds its own.
    max: Option<usize>,
    /// Connections that exist or are being opened.
    open: usize,
    /// Those of them being opened.
    opening: usize,
    /// Established, but neither granted to a client nor idle yet.
    arriving: usize,
    idle: Vec<LinkRef>,
    queue: VecDeque<Waiter>,
    /// No connection is opened before this time, after a failure to open one.
    not_before_ns: u64,
    failures: u32,
    /// Connections lost and not replaced yet.
    lost: usize,
    next_thread: usize,
    /// Connections to be idle at any time, as far as the limit allows.
    idle_min: usize,
    slow_start: bool,
    /// After a failure: how many may be opened at the same time.
    window: Option<usize>,
}

impl Pool {
    /// An empty pool. With `slow_start`, connections come back one, two, four … at a time after a
    /// failure.
    #[must_use]
    pub fn new(max: Option<u32>, idle_min: u32, slow_start: bool) -> Self {
        Self {
            idle_min: idle_min as usize,
            slow_start,
            window: None,
            max: max.map(|max| max as usize),
            open: 0,
            opening: 0,
            arriving: 0,
            idle: Vec::new(),
            queue: VecDeque::new(),
            not_before_ns: 0,
            failures: 0,
            lost: 0,
            next_thread: 0,
        }
    }

    /// Changes the limit.
    pub fn set_max(&mut self, max: Option<u32>) {
        self.max = max.map(|max| max as usize);
    }

    /// A client asks for a connection: an idle one, of `thread` if possible, or a place in the queue.
    pub fn acquire(&mut self, thread: usize, client: Box<Client>, deadline_ns: u64) -> Grant {
        let near = self.idle.iter().rposition(|link| link.thread == thread);
        let link = match near {
            Some(index) => Some(self.idle.swap_remove(index)),
            None => self.idle.pop(),
        };
        match link {
            Some(link) => Grant::Link(link, client),
            None => {
                self.queue.push_back(Waiter {
                    client,
                    deadline_ns,
                });
                Grant::Queued
            }
        }
    }

    /// A client whose connection turned out to be unusable asks again, before all others: an idle
    /// one, or the first place in the queue.
    pub fn acquire_again(&mut self, thread: usize, client: Box<Client>, deadline_ns: u64) -> Grant {
        let grant = self.acquire(thread, client, deadline_ns);
        if matches!(grant, Grant::Queued)
            && let Some(last) = self.queue.pop_back()
        {
            self.queue.push_front(last);
        }
        grant
    }

    /// A client hands its connection on and asks for one again, in one step.
    /// Whoever is first in the queue gets it; with nobody waiting the client keeps it.
    pub fn pass_on(&mut self, client: Box<Client>, deadline_ns: u64) -> Box<Client> {
        match self.queue.pop_front() {
            Some(first) => {
                self.queue.push_back(Waiter {
                    client,
                    deadline_ns,
                });
                first.client
            }
            None => client,
        }
    }

    /// A connection is free: the client that gets it, if one waits; else it is idle from now on.
    pub fn release(&mut self, link: LinkRef) -> Option<Box<Client>> {
        let first = self.queue.pop_front();
        if first.is_none() {
            self.idle.push(link);
        }
        first.map(|waiter| waiter.client)
    }

    /// True if there are more connections than allowed, so that a free one must be closed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.max.is_none_or(|max| self.open > max)
    }

    /// Takes a connection out of the idle ones; false if it is not among them (it was granted).
    pub fn take_idle(&mut self, link: LinkRef) -> bool {
        let found = self.idle.iter().position(|other| *other == link);
        found.map(|index| self.idle.swap_remove(index)).is_some()
    }

    /// An idle connection of `thread` that must go because the limit fell.
    pub fn take_surplus(&mut self, thread: usize) -> Option<LinkRef> {
        if !self.is_over() {
            return None;
        }
        let index = self.idle.iter().position(|link| link.thread == thread)?;
        self.open -= 1;
        Some(self.idle.swap_remove(index))
    }

    /// An idle connection of `thread` that `is_old` says is to go. With `spare` only as long as more
    /// are idle than must be.
    pub fn take_old(
        &mut self,
        thread: usize,
        spare: bool,
        is_old: impl Fn(&LinkRef) -> bool,
    ) -> Option<LinkRef> {
        if spare && self.idle.len() <= self.idle_min {
            return None;
        }
        let old = |link: &LinkRef| link.thread == thread && is_old(link);
        let index = self.idle.iter().position(old)?;
        self.open -= 1;
        Some(self.idle.remove(index))
    }

    /// True if more connections are wanted than are on their way.
    fn wants_more(&self) -> bool {
        let idle = self.idle_min.saturating_sub(self.idle.len());
        self.opening + self.arriving < self.queue.len() + idle
    }

    /// True if another connection should be opened now; if so it counts as being opened, and the
    /// number of the thread that is to do it is returned.
    pub fn begin_opening(&mut self, threads: usize, now_ns: u64) -> Option<usize> {
        let room = self.max.is_some_and(|max| self.open < max);
        let paced = self.window.is_none_or(|window| self.opening < window);
        let allowed = room && paced && now_ns >= self.not_before_ns;
        if !self.wants_more() || !allowed {
            return None;
        }
        self.open += 1;
        self.opening += 1;
        self.next_thread = (self.next_thread + 1) % threads;
        Some(self.next_thread)
    }

    /// Time at which a connection may be opened for waiting clients, if only a pause after a failure
    /// prevents it now.
    #[must_use]
    pub fn opens_at_ns(&self) -> Option<u64> {
        let waits = self.wants_more() && self.max.is_some_and(|max| self.open < max);
        waits.then_some(self.not_before_ns)
    }

    /// A connection was established, and will be released and then have arrived; true if it
    /// replaces one that was lost.
    pub fn opened(&mut self) -> bool {
        self.opening -= 1;
        self.arriving += 1;
        self.failures = 0;
        self.not_before_ns = 0;
        // It wants no more once its queue is served, and the pace is forgotten then.
        self.window = self.window.map(|window| window.saturating_mul(2));
        if self.opening == 0 && !self.wants_more() {
            self.window = None;
        }
        let replaces = self.lost > 0;
        self.lost -= usize::from(replaces);
        replaces
    }

    /// A new connection was released: it is granted, idle or closed. Until then other threads must
    /// not open another in its place.
    pub fn arrived(&mut self) {
        self.arriving -= 1;
    }

    /// A connection could not be established: how often in a row, for the length of the pause.
    pub fn opening_failed(&mut self) -> u32 {
        self.opening -= 1;
        self.open -= 1;
        self.slow_down();
        self.failures = self.failures.saturating_add(1);
        self.failures
    }

    /// Nothing is opened before this time.
    pub fn pause_until(&mut self, not_before_ns: u64) {
        self.not_before_ns = not_before_ns;
    }

    /// An established connection was closed.
    pub fn closed(&mut self) {
        self.open -= 1;
    }

    /// An established connection was lost.
    pub fn lost(&mut self) {
        self.open -= 1;
        self.lost += 1;
        self.slow_down();
    }

    fn slow_down(&mut self) {
        if self.slow_start {
            self.window = Some(1);
        }
    }

    /// A client's own connection becomes one of the pool's.
    pub fn adopt(&mut self) {
        self.open += 1;
    }

    /// The first client in the queue that has waited too long.
    pub fn take_expired(&mut self, now_ns: u64) -> Option<Box<Client>> {
        let first = self.queue.front()?;
        if first.deadline_ns > now_ns {
            return None;
        }
        self.queue.pop_front().map(|waiter| waiter.client)
    }

    /// Time at which the first client in the queue gives up.
    #[must_use]
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.queue.front().map(|waiter| waiter.deadline_ns)
    }

    /// Takes the first client out of the queue, the one that it is.
    pub fn take_first(&mut self) -> Option<Box<Client>> {
        self.queue.pop_front().map(|waiter| waiter.client)
    }
}

#[cfg(test)]
mod model;
