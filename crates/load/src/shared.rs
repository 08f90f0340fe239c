//! State that the threads of a load share: groups, mailboxes, the number of the current interval.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::acks::AckFile;
use crate::arrival::Queue;
use crate::client::Client;
use crate::collect::Collector;
use crate::error::LoadError;
use crate::failure::Failure;
use crate::keys::Derived;
use crate::plan::{GroupPlan, Plan};
use crate::pool::{LinkRef, Pool, PoolId};
use crate::sample::Samples;
use crate::script::Rng;
use crate::slow_start::SlowStart;
use crate::sys::{Bell, lock, monotonic_ns};
use crate::target::Target;
use crate::translog::TransactionLog;

/// A message to a worker thread.
#[derive(Debug)]
pub enum Mail {
    /// This client got that connection of yours.
    Handover(LinkRef, Box<Client>),
    /// This connection of yours, of this group, may be tried now.
    Connect(usize, LinkRef),
    /// Keys that this connection waits for.
    Keys(LinkRef, Arc<Derived>),
    /// Open a connection for this pool.
    OpenPooled(PoolId),
    /// The number of clients of a group changed.
    ClientsChanged,
    /// An open loop's arrivals are not what they were: look again who takes what.
    Arrivals(usize),
    /// The limit of a group's pools changed, or whether it has any.
    PoolChanged(usize),
    /// Begin no more transactions; cut off at this time what is still under way.
    Stop(u64),
    /// Report what was counted and end.
    Exit,
}

/// A worker's letter box and the bell that goes with it.
#[derive(Debug)]
pub struct Mailbox {
    mail: Mutex<Vec<Mail>>,
    waiting: AtomicBool,
    bell: Arc<Bell>,
}

impl Mailbox {
    /// Empty; `bell` wakes its thread.
    #[must_use]
    pub fn new(bell: Arc<Bell>) -> Self {
        Self {
            mail: Mutex::new(Vec::new()),
            waiting: AtomicBool::new(false),
            bell,
        }
    }

    /// Leaves a message and rings.
    pub fn post(&self, mail: Mail) {
        lock(&self.mail).push(mail);
        self.waiting.store(true, Ordering::Release);
        self.ring();
    }

    /// Rings only.
    pub fn ring(&self) {
        self.bell.ring();
    }

    /// Takes all messages, oldest first.
    pub fn take(&self) -> Vec<Mail> {
        if self.waiting.swap(false, Ordering::AcqRel) {
            std::mem::take(&mut *lock(&self.mail))
        } else {
            Vec::new()
        }
    }
}

/// The existence of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// Not yet, or not any more; it may come again, and goes on after so many transactions.
    Absent(u64),
    /// It does.
    Present,
    /// It has had all its transactions, and does not come again.
    Finished,
}

/// State of a group that all threads share.
#[derive(Debug)]
pub struct GroupShared {
    /// Clients wanted: those with a lower number go on, others end after their transaction.
    target: AtomicU32,
    /// By client number. Its lock orders changes of `target` and endings.
    lives: Mutex<Vec<Life>>,
    /// Clients that exist.
    clients: AtomicU32,
    /// The pools, one for each instance.
    pub pools: Vec<Mutex<Pool>>,
    /// True if clients share connections.
    shares: AtomicBool,
    /// Queue of its transactions, for an open loop.
    pub arrivals: Option<Mutex<Queue>>,
    /// Which clients may try to connect.
    pub slow_start: Mutex<SlowStart>,
    /// Of an open loop that ends: transactions that its clients have ended.
    ended: Option<AtomicU64>,
    /// True if its clients have nothing to do between two transactions, or at all.
    pub rests: bool,
}

impl GroupShared {
    fn new(plan: &GroupPlan, arrivals: Option<Queue>) -> Self {
        let pool = &plan.pool;
        Self {
            rests: arrivals.is_some() || plan.idle,
            ended: plan
                .transactions
                .filter(|_| arrivals.is_some())
                .map(|_| AtomicU64::new(0)),
            slow_start: Mutex::new(SlowStart::new(plan.slow_start)),
            arrivals: arrivals.map(Mutex::new),
            target: AtomicU32::new(0),
            lives: Mutex::new(Vec::new()),
            clients: AtomicU32::new(0),
            pools: (0..plan.instances)
                .map(|_| Mutex::new(Pool::new(pool.max, pool.idle_min, plan.slow_start)))
                .collect(),
            shares: AtomicBool::new(pool.max.is_some()),
        }
    }

    /// Clients wanted.
    pub fn target(&self) -> u32 {
        self.target.load(Ordering::Relaxed)
    }

    /// Changes how many are wanted; true if that is a change.
    pub fn set_target(&self, clients: u32) -> bool {
        let mut lives = lock(&self.lives);
        if lives.len() < clients as usize {
            lives.resize(clients as usize, Life::Absent(0));
        }
        self.target.swap(clients, Ordering::Relaxed) != clients
    }

    /// Clients that exist.
    pub fn clients(&self) -> u32 {
        self.clients.load(Ordering::Relaxed)
    }

    /// Numbers of clients that are wanted, do not exist and belong to a thread, with how many
    /// transactions they have begun before; they exist from now on.
    pub fn spawn(&self, thread: usize, threads: usize) -> Vec<(u32, u64)> {
        let mut lives = lock(&self.lives);
        let target = self.target();
        let mine = (0..target).skip(thread).step_by(threads);
        let absent = |id: u32| match lives[id as usize] {
            Life::Absent(begun) => Some((id, begun)),
            _ => None,
        };
        let new: Vec<(u32, u64)> = mine.filter_map(absent).collect();
        for (id, _) in &new {
            lives[*id as usize] = Life::Present;
        }
        self.clients
            .fetch_add(u32::try_from(new.len()).unwrap_or(0), Ordering::Relaxed);
        new
    }

    /// True if a client between two transactions is to end; if so it no longer exists.
    pub fn retire(&self, client: &Client) -> bool {
        let finished = client.is_finished();
        if client.id < self.target() && !finished {
            return false;
        }
        let mut lives = lock(&self.lives);
        if client.id < self.target() && !finished {
            return false;
        }
        lives[client.id as usize] = if finished {
            Life::Finished
        } else {
            Life::Absent(client.begun())
        };
        self.clients.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// A client's transaction is over, however it ended.
    pub fn transaction_ended(&self) {
        if let Some(ended) = &self.ended {
            ended.fetch_add(1, Ordering::Release);
        }
    }

    /// True if all requested clients have had their transactions.
    pub fn is_finished(&self) -> bool {
        if let (Some(queue), Some(ended)) = (&self.arrivals, &self.ended) {
            return lock(queue).is_over(ended.load(Ordering::Acquire));
        }
        let lives = lock(&self.lives);
        let mut wanted = lives.iter().take(self.target() as usize);
        self.target() > 0 && self.clients() == 0 && wanted.all(|life| *life == Life::Finished)
    }

    /// The instance of a client: the clients take turns.
    pub fn instance_of(&self, client: &Client) -> usize {
        client.id as usize % self.pools.len()
    }

    /// True if clients share connections.
    pub fn shares(&self) -> bool {
        self.shares.load(Ordering::Relaxed)
    }

    /// Changes the limit of each pool, or whether there are pools.
    pub fn set_pool_max(&self, max: Option<u32>) {
        for pool in &self.pools {
            lock(pool).set_max(max);
        }
        self.shares.store(max.is_some(), Ordering::Relaxed);
    }
}

/// Files in which each transaction is noted, one of a kind per thread; none of a kind that is not
/// wanted.
#[derive(Debug, Default)]
pub struct Records {
    /// The ack ledger.
    pub acks: Vec<AckFile>,
    /// pgbench's log.
    pub logs: Vec<TransactionLog>,
}

/// State that the threads of a load share.
pub struct Shared {
    /// The pending command.
    pub plan: Plan,
    /// By group: its server.
    pub targets: Vec<Arc<Target>>,
    /// By number.
    pub groups: Vec<GroupShared>,
    /// By thread.
    pub mailboxes: Vec<Mailbox>,
    /// By thread: its part of the ack ledger, until the thread takes it.
    acks: Mutex<Vec<Option<AckFile>>>,
    /// By thread: its part of the log of transactions, likewise.
    logs: Mutex<Vec<Option<TransactionLog>>>,
    /// The error that ended the load, if a thread found that.
    failure: Mutex<Option<LoadError>>,
    /// Destination of the counts.
    pub collector: Mutex<Collector>,
    /// Transactions as they were sent.
    pub samples: Mutex<Samples>,
    /// Number of the current interval. A thread looks at it before it counts anything for a client
    /// that came from another thread, so that what happened first is never counted later.
    pub interval: AtomicU64,
    /// Threads with nothing under way after [`Mail::Stop`].
    pub drained: AtomicUsize,
    /// State of all connections.
    pub health: Health,
    /// Statements that set a session's settings.
    settings: Mutex<Arc<str>>,
    /// Number of their changes; 0 while sessions have their initial settings.
    settings_number: AtomicU64,
}

impl Shared {
    /// At the very beginning; the first interval carries `tag`.
    #[must_use]
    pub fn new(
        plan: Plan,
        targets: Vec<Arc<Target>>,
        mailboxes: Vec<Mailbox>,
        records: Records,
        started_ns: u64,
        tag: Option<i64>,
    ) -> Self {
        let mut seeds = Rng::new(plan.seed);
        let groups = plan.groups.iter().map(|group| {
            let queue = group.queue(
                seeds.next_u64(),
                plan.threads,
                started_ns,
                plan.log.is_some(),
            );
            GroupShared::new(group, queue)
        });
        Self {
            groups: groups.collect(),
            acks: Mutex::new(records.acks.into_iter().map(Some).collect()),
            logs: Mutex::new(records.logs.into_iter().map(Some).collect()),
            failure: Mutex::new(None),
            samples: Mutex::new(Samples::new(plan.rows())),
            collector: Mutex::new(Collector::new(plan.threads, started_ns, tag)),
            settings: Mutex::new(Arc::from(plan.session.as_deref().unwrap_or_default())),
            settings_number: AtomicU64::new(u64::from(plan.session.is_some())),
            plan,
            targets,
            mailboxes,
            interval: AtomicU64::new(0),
            drained: AtomicUsize::new(0),
            health: Health::default(),
        }
    }

    /// Every session is to execute this before its next transaction, and new ones too.
    pub fn set_session(&self, sql: &str) {
        let mut settings = lock(&self.settings);
        *settings = Arc::from(sql);
        self.settings_number.fetch_add(1, Ordering::Release);
    }

    /// Number of calls of [`Shared::set_session`], and one for what sessions begin with.
    pub fn settings_number(&self) -> u64 {
        self.settings_number.load(Ordering::Acquire)
    }

    /// Number of the current session settings, and the SQL that a session executes to have them.
    pub fn session_settings(&self) -> (u64, Arc<str>) {
        let settings = lock(&self.settings);
        (self.settings_number(), Arc::clone(&settings))
    }

    /// A thread's part of the ack ledger, once; `None` in a load without one.
    pub fn take_acks(&self, thread: usize) -> Option<AckFile> {
        lock(&self.acks).get_mut(thread)?.take()
    }

    /// A thread's part of the log of transactions, once; `None` in a load without one.
    pub fn take_log(&self, thread: usize) -> Option<TransactionLog> {
        lock(&self.logs).get_mut(thread)?.take()
    }

    /// A thread found that the load cannot go on: all stop at once.
    pub fn fail(&self, error: LoadError, now_ns: u64) {
        lock(&self.failure).get_or_insert(error);
        self.post_all(|| Mail::Stop(now_ns));
    }

    /// Something failed that is to end the load: all stop at once.
    pub fn abort(&self, who: &str, failure: &Failure, now_ns: u64) {
        let message = format!("{who}: {} {}", failure.code.as_str(), failure.message);
        let hint = "--exit-on-abort ends the run with the first failure";
        self.fail(LoadError::new("aborted", message).with_hint(hint), now_ns);
    }

    /// The error that ended the load, if a thread found that.
    pub fn failure(&self) -> Option<LoadError> {
        lock(&self.failure).clone()
    }

    /// A pool.
    pub fn pool(&self, id: PoolId) -> &Mutex<Pool> {
        &self.groups[id.group].pools[id.instance]
    }

    /// The pool of a client's instance.
    pub fn pool_of(&self, client: &Client) -> PoolId {
        PoolId {
            group: client.group,
            instance: self.groups[client.group].instance_of(client),
        }
    }

    /// The pools of a group.
    pub fn pools_of(&self, group: usize) -> impl Iterator<Item = PoolId> + use<> {
        (0..self.groups[group].pools.len()).map(move |instance| PoolId { group, instance })
    }

    /// Posts to every thread.
    pub fn post_all(&self, mail: impl Fn() -> Mail) {
        for mailbox in &self.mailboxes {
            mailbox.post(mail());
        }
    }

    /// Ends the current interval on all threads; the next one carries `tag`, or the same as
    /// before. Returns when.
    pub fn end_interval(&self, tag: Option<Option<i64>>) -> u64 {
        self.catch_up();
        let mut collector = lock(&self.collector);
        let mut queues = self.lock_arrivals();
        let now_ns = monotonic_ns();
        self.count_arrivals(&mut collector, &mut queues, now_ns);
        let number = collector.end_interval(now_ns, tag);
        self.interval.store(number, Ordering::Release);
        drop(queues);
        drop(collector);
        for mailbox in &self.mailboxes {
            mailbox.ring();
        }
        now_ns
    }
}

/// The queue of a group that is an open loop, locked, with the group's number.
type LockedQueue<'a> = (usize, MutexGuard<'a, Queue>);

/// Open loops.
impl Shared {
    /// The open loops' queues. Their order is that of the groups, and the collector is locked
    /// before them if it is locked too.
    fn lock_arrivals(&self) -> Vec<LockedQueue<'_>> {
        let groups = self.groups.iter().enumerate();
        groups
            .filter_map(|(number, group)| Some((number, lock(group.arrivals.as_ref()?))))
            .collect()
    }

    /// Counts what became due, a little at a time, so that no thread waits for long.
    fn catch_up(&self) {
        const AT_A_TIME: usize = 1000;
        for queue in self
            .groups
            .iter()
            .filter_map(|group| group.arrivals.as_ref())
        {
            while !lock(queue).catch_up(monotonic_ns(), AT_A_TIME) {}
        }
    }

    /// Hands the current interval what became due up to now, which is the latest time at which the
    /// queue was used.
    fn count_arrivals(
        &self,
        collector: &mut Collector,
        queues: &mut [LockedQueue<'_>],
        now_ns: u64,
    ) {
        for (group, queue) in queues {
            let scripts = &self.plan.groups[*group].scripts;
            queue.take_counts(now_ns, |script, counts| {
                collector.count_arrivals(scripts[script].row, counts);
            });
        }
    }

    /// Nothing becomes due any more.
    pub fn stop_arrivals(&self) {
        for (_, mut queue) in self.lock_arrivals() {
            queue.stop(monotonic_ns());
        }
    }

    /// At the very end: hands the last interval what became due, and what of that nobody started.
    pub fn finish_arrivals(&self) {
        self.stop_arrivals();
        let mut collector = lock(&self.collector);
        let mut queues = self.lock_arrivals();
        self.count_arrivals(&mut collector, &mut queues, monotonic_ns());
        let mut waiting = vec![0; self.plan.rows()];
        for (group, queue) in &queues {
            let scripts = &self.plan.groups[*group].scripts;
            queue
                .unstarted()
                .for_each(|script| waiting[scripts[script].row] += 1);
        }
        collector.add_waiting(&waiting);
    }
}

/// Established connections, and the time since there has been none.
#[derive(Debug, Default)]
pub struct Health {
    established: AtomicUsize,
    down_since_ns: AtomicU64,
    last_failure: Mutex<String>,
}

impl Health {
    /// A connection was established.
    pub fn up(&self) {
        self.established.fetch_add(1, Ordering::Relaxed);
        self.down_since_ns.store(0, Ordering::Relaxed);
    }

    /// Connections that are established.
    pub fn established(&self) -> usize {
        self.established.load(Ordering::Relaxed)
    }

    /// An established connection was closed or lost.
    pub fn down(&self) {
        self.established.fetch_sub(1, Ordering::Relaxed);
    }

    /// A connection could not be established.
    pub fn failed(&self, now_ns: u64, why: &str) {
        why.clone_into(&mut lock(&self.last_failure));
        if self.established.load(Ordering::Relaxed) == 0 {
            let _ = self.down_since_ns.compare_exchange(
                0,
                now_ns,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    /// No client needs a connection: earlier failures no longer count.
    pub fn forget(&self) {
        self.down_since_ns.store(0, Ordering::Relaxed);
    }

    /// For how long there has been no connection although some were tried, and why the last failed.
    pub fn gone(&self, now_ns: u64) -> Option<(u64, String)> {
        let since = self.down_since_ns.load(Ordering::Relaxed);
        let none = self.established.load(Ordering::Relaxed) == 0 && since != 0;
        none.then(|| {
            (
                now_ns.saturating_sub(since),
                lock(&self.last_failure).clone(),
            )
        })
    }
}
