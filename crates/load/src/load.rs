//! A load from outside: made from a configuration, started, steered, stopped, polled for counts.
//!
//! Beside the worker threads one coordinator thread ends an interval each second, follows the
//! schedules of clients, and gives up when the server has been gone for too long.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::acks::AckFile;
use crate::config::check_rate;
use crate::error::LoadError;
use crate::net::{Target, reason};
use crate::plan::{Plan, PlanError};
use crate::reactor::{Choice, Reactor, Wanted};
use crate::report::{Interval, Reporter};
use crate::schedule::Schedule;
use crate::shared::{GroupShared, Mail, Mailbox, Shared, lock};
use crate::sys::{Bell, monotonic_ns, pin_to_cpu, raise_open_files, set_nice};
use crate::worker::Worker;

/// Length of an interval that nobody cuts short.
const INTERVAL_NS: u64 = 1_000_000_000;
/// How often the coordinator looks whether all clients have had their transactions.
const FINISH_LOOK_NS: u64 = 5_000_000;
/// How often the coordinator looks whether all threads are done, once stopped.
const DRAIN_LOOK_NS: u64 = 1_000_000;

/// Where a load is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Made, not started.
    New,
    /// Running.
    Running,
    /// Told to stop; transactions are still under way.
    Stopping,
    /// Over.
    Stopped,
}

/// A load.
pub struct Load {
    plan: Mutex<Option<Plan>>,
    running: Mutex<Option<Running>>,
    reporter: Mutex<Option<Reporter>>,
}

/// What a running load is made of.
#[derive(Debug, Clone)]
pub struct Facts {
    /// How sockets are watched: `mio` or `io_uring`.
    pub reactor: &'static str,
    /// Why so.
    pub reactor_why: String,
    /// CPUs that the threads are bound to, in turn.
    pub cpus: Option<Vec<usize>>,
    /// The threads' nice level, if not that of the process.
    pub nice: Option<i32>,
}

struct Running {
    choice: Choice,
    shared: Arc<Shared>,
    control: Arc<Control>,
    coordinator: Option<JoinHandle<()>>,
}

/// What the coordinator and the one who steers share.
struct Control {
    steering: Mutex<Steering>,
    changed: Condvar,
}

struct Steering {
    state: State,
    schedules: Vec<Schedule>,
    stop_at_ns: Option<u64>,
    fatal: Option<LoadError>,
}

impl Load {
    /// Checks a configuration. Nothing is connected yet.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn new(config_json: &str) -> Result<Self, PlanError> {
        let plan = Plan::from_json(config_json)?;
        Ok(Self {
            plan: Mutex::new(Some(plan)),
            running: Mutex::new(None),
            reporter: Mutex::new(None),
        })
    }

    /// Makes one connection to see that it can be done, then starts the threads. Returns the zero
    /// of the schedules on the monotonic clock, in nanoseconds.
    ///
    /// # Errors
    /// The server cannot be reached or refuses, in its own words; or the load was started before.
    pub fn start(&self) -> Result<u64, LoadError> {
        let mut slot = lock(&self.plan);
        let Some(plan) = slot.as_ref() else {
            return Err(LoadError::new(
                "already-started",
                "the load was started before",
            ));
        };
        let timeout = Duration::from_nanos(plan.connect_timeout_ns);
        let target = Target::reach(&plan.target, timeout)?;
        raise_open_files();
        let (reactors, choice) = Reactor::for_threads(plan.reactor, plan.threads)
            .map_err(|error| no_reactor(plan.reactor, &error))?;
        let acks = match &plan.acks {
            Some(directory) => AckFile::create_all(directory, plan)?,
            None => Vec::new(),
        };
        let Some(plan) = slot.take() else {
            return Err(LoadError::new(
                "already-started",
                "the load was started before",
            ));
        };
        let (running, started_ns) = spawn(plan, target, reactors, choice, acks)?;
        *lock(&self.running) = Some(running);
        Ok(started_ns)
    }

    /// Intervals that are over since the last call, in order. Never blocks.
    pub fn poll(&self) -> Vec<Interval> {
        let Some(shared) = self.shared() else {
            return Vec::new();
        };
        let mut reporter = lock(&self.reporter);
        let reporter = reporter.get_or_insert_with(|| Reporter::new(&shared.plan));
        let mut intervals = Vec::new();
        // The threads must not wait for the lock while histograms are encoded.
        while let Some(finished) = { lock(&shared.collector).take_finished() } {
            let (interval, tallies) = reporter.report(&shared.plan, finished);
            lock(&shared.collector).give_back(tallies);
            intervals.push(interval);
        }
        intervals
    }

    /// Ends the current interval; the next ones carry `tag`. Returns when that was, in nanoseconds
    /// of the monotonic clock.
    pub fn cut(&self, tag: Option<i64>) -> u64 {
        let Some(shared) = self.shared() else {
            return monotonic_ns();
        };
        let now_ns = shared.cut(Some(tag));
        self.wake_coordinator();
        now_ns
    }

    /// Changes a group's number of clients, now; its schedule ends. Clients that are too many end
    /// after their transaction.
    ///
    /// # Errors
    /// There is no such group, or the load does not run.
    pub fn set_clients(&self, group: &str, clients: u32) -> Result<(), LoadError> {
        let (shared, control) = self.steer()?;
        let number = shared.plan.group(group)?;
        lock(&control.steering).schedules[number] = Schedule::constant(clients);
        if shared.groups[number].set_target(clients) {
            shared.post_all(|| Mail::ClientsChanged);
        }
        Ok(())
    }

    /// Changes the limit of a group's pool, now; `None` gives each client its own connection.
    /// Connections that are too many are closed when their transaction is over.
    ///
    /// # Errors
    /// There is no such group, the limit is 0, or the load does not run.
    pub fn set_pool_max(&self, group: &str, max: Option<u32>) -> Result<(), LoadError> {
        let (shared, _) = self.steer()?;
        let number = shared.plan.group(group)?;
        if max == Some(0) {
            return Err(LoadError::new(
                "config-invalid",
                "a pool needs at least one connection",
            ));
        }
        shared.groups[number].set_pool_max(max);
        shared.post_all(|| Mail::PoolChanged(number));
        Ok(())
    }

    /// Multiplies the rate of an open loop, from now on.
    ///
    /// # Errors
    /// There is no such group, it has no rate, the factor makes none, or the load does not run.
    pub fn set_rate(&self, group: &str, factor: f64) -> Result<(), LoadError> {
        let (shared, _) = self.steer()?;
        let number = shared.plan.group(group)?;
        let Some(queue) = &shared.groups[number].arrivals else {
            let message = format!("client group {group:?} has no rate: it is a closed loop");
            return Err(LoadError::new("config-invalid", message)
                .with_hint("give the group an arrival to change its rate"));
        };
        let mut queue = lock(queue);
        check_rate(
            "the highest rate times the factor",
            queue.rate_max() * factor,
        )?;
        queue.set_factor(monotonic_ns(), factor);
        drop(queue);
        shared.post_all(|| Mail::Arrivals(number));
        Ok(())
    }

    /// Where the load is in its life.
    pub fn state(&self) -> State {
        lock(&self.running)
            .as_ref()
            .map_or(State::New, |running| lock(&running.control.steering).state)
    }

    /// Why the load cannot go on, if so.
    pub fn fatal(&self) -> Option<LoadError> {
        let running = lock(&self.running);
        running
            .as_ref()
            .and_then(|running| lock(&running.control.steering).fatal.clone())
    }

    /// What it is made of; `None` before the start.
    pub fn facts(&self) -> Option<Facts> {
        let running = lock(&self.running);
        running.as_ref().map(|running| Facts {
            reactor: running.choice.name,
            reactor_why: running.choice.why.clone(),
            cpus: running.shared.plan.cpus.clone(),
            nice: running.shared.plan.nice,
        })
    }

    /// Begins no more transactions, waits for those under way up to the given time, cuts off the
    /// rest, and ends the threads. The last intervals are there to [`Load::poll`] afterwards.
    pub fn stop(&self, drain: Duration) {
        let coordinator = {
            let mut running = lock(&self.running);
            let Some(running) = running.as_mut() else {
                return;
            };
            running.control.stop(&running.shared, drain);
            running.coordinator.take()
        };
        if let Some(coordinator) = coordinator {
            // A coordinator that panicked has nothing left to wait for.
            let _ = coordinator.join();
        }
    }

    fn shared(&self) -> Option<Arc<Shared>> {
        lock(&self.running)
            .as_ref()
            .map(|running| Arc::clone(&running.shared))
    }

    fn steer(&self) -> Result<(Arc<Shared>, Arc<Control>), LoadError> {
        let running = lock(&self.running);
        running
            .as_ref()
            .map(|running| (Arc::clone(&running.shared), Arc::clone(&running.control)))
            .ok_or_else(|| LoadError::new("not-started", "the load is not started"))
    }

    fn wake_coordinator(&self) {
        if let Some(running) = lock(&self.running).as_ref() {
            running.control.changed.notify_one();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

impl Control {
    fn stop(&self, shared: &Shared, drain: Duration) {
        let mut steering = lock(&self.steering);
        let drain_ns = u64::try_from(drain.as_nanos()).unwrap_or(u64::MAX);
        let at_ns = monotonic_ns().saturating_add(drain_ns);
        if steering.state == State::Running {
            steering.state = State::Stopping;
        }
        if steering
            .stop_at_ns
            .is_none_or(|earlier_ns| at_ns < earlier_ns)
        {
            steering.stop_at_ns = Some(at_ns);
            shared.stop_arrivals();
            shared.post_all(|| Mail::Stop(at_ns));
        }
        self.changed.notify_one();
    }
}

fn spawn(
    plan: Plan,
    target: Target,
    reactors: Vec<(Reactor, Arc<Bell>)>,
    choice: Choice,
    acks: Vec<AckFile>,
) -> Result<(Running, u64), LoadError> {
    let schedules: Vec<Schedule> = plan
        .groups
        .iter()
        .map(|group| group.schedule.clone())
        .collect();
    let (reactors, bells): (Vec<_>, Vec<_>) = reactors.into_iter().unzip();
    let mailboxes = bells.into_iter().map(Mailbox::new).collect();
    let started_ns = monotonic_ns();
    let shared = Arc::new(Shared::new(plan, target, mailboxes, acks, started_ns));
    for (group, schedule) in shared.groups.iter().zip(&schedules) {
        group.set_target(schedule.clients_at(0));
    }
    let steering = Steering {
        state: State::Running,
        schedules,
        stop_at_ns: None,
        fatal: None,
    };
    let control = Arc::new(Control {
        steering: Mutex::new(steering),
        changed: Condvar::new(),
    });
    let workers = spawn_workers(&shared, reactors)?;
    let coordinator = Coordinator {
        shared: Arc::clone(&shared),
        control: Arc::clone(&control),
        workers,
        started_ns,
    };
    let coordinator = std::thread::Builder::new()
        .name("pgdyno-load".into())
        .spawn(move || coordinator.run())
        .map_err(|error| no_thread(&error))?;
    Ok((
        Running {
            choice,
            shared,
            control,
            coordinator: Some(coordinator),
        },
        started_ns,
    ))
}

/// All of them, settled where they are to run, or none.
fn spawn_workers(
    shared: &Arc<Shared>,
    reactors: Vec<Reactor>,
) -> Result<Vec<JoinHandle<()>>, LoadError> {
    let mut workers = Vec::with_capacity(reactors.len());
    let (settled, outcomes) = mpsc::channel();
    for (thread, reactor) in reactors.into_iter().enumerate() {
        let (state, settled) = (Arc::clone(shared), settled.clone());
        let named = std::thread::Builder::new().name(format!("pgdyno-load-{thread}"));
        let worker = named.spawn(move || work(thread, state, reactor, settled));
        match worker {
            Ok(worker) => workers.push(worker),
            Err(error) => {
                shared.post_all(|| Mail::Exit);
                return Err(no_thread(&error));
            }
        }
    }
    drop(settled);
    match outcomes.iter().find_map(Result::err) {
        None => Ok(workers),
        Some(error) => {
            shared.post_all(|| Mail::Exit);
            Err(error)
        }
    }
}

/// A worker thread, from its first instruction to its last.
fn work(
    thread: usize,
    shared: Arc<Shared>,
    mut reactor: Reactor,
    settled: mpsc::Sender<Result<(), LoadError>>,
) {
    let outcome = settle(thread, &shared.plan, &mut reactor);
    let failed = outcome.is_err();
    // Who started the load waits for the outcomes of all.
    let _ = settled.send(outcome);
    drop(settled);
    if !failed {
        Worker::new(thread, shared, reactor).run();
    }
}

/// Makes the calling thread the one that worker number `thread` is to be.
fn settle(thread: usize, plan: &Plan, reactor: &mut Reactor) -> Result<(), LoadError> {
    if let Some(cpus) = &plan.cpus {
        let cpu = cpus[thread % cpus.len()];
        pin_to_cpu(cpu).map_err(|error| no_cpu(cpu, &error))?;
    }
    if let Some(level) = plan.nice {
        set_nice(level).map_err(|error| no_nice(level, &error))?;
    }
    reactor
        .settle()
        .map_err(|error| no_reactor(plan.reactor, &error))
}

fn no_cpu(cpu: usize, error: &std::io::Error) -> LoadError {
    let message = format!("cannot bind a thread to CPU {cpu}: {}", reason(error));
    let hint = match std::thread::available_parallelism() {
        Ok(count) => format!("this process may use {count} CPUs; they are numbered from 0"),
        Err(_) => "CPUs are numbered from 0".to_owned(),
    };
    LoadError::new("system-limit", message).with_hint(hint)
}

fn no_nice(level: i32, error: &std::io::Error) -> LoadError {
    let message = format!("cannot take nice level {level}: {}", reason(error));
    LoadError::new("system-limit", message)
        .with_hint("levels below 0 are for root, or as far as RLIMIT_NICE allows (ulimit -e)")
}

fn no_reactor(wanted: Wanted, error: &std::io::Error) -> LoadError {
    if wanted != Wanted::IoUring {
        return no_thread(error);
    }
    let message = format!("io_uring cannot be had: {}", reason(error));
    LoadError::new("reactor-unsupported", message).with_hint(
        "it needs Linux 6.1 and kernel.io_uring_disabled=0, and many containers forbid it; \
         reactor auto takes mio then",
    )
}

fn no_thread(error: &std::io::Error) -> LoadError {
    LoadError::new(
        "system-limit",
        format!("cannot start the load's threads: {error}"),
    )
    .with_hint("raise the limits on processes and open files (ulimit -u, ulimit -n)")
}

/// Ends intervals, follows schedules, watches over the end.
struct Coordinator {
    shared: Arc<Shared>,
    control: Arc<Control>,
    workers: Vec<JoinHandle<()>>,
    started_ns: u64,
}

impl Coordinator {
    fn run(self) {
        loop {
            let now_ns = monotonic_ns();
            let cut_ns = self.cut_if_due(now_ns);
            let mut steering = lock(&self.control.steering);
            self.end_if_failed(&mut steering, now_ns);
            let stopping = steering.state == State::Stopping;
            let drained = self.shared.drained.load(Ordering::Acquire) == self.workers.len();
            if stopping && drained {
                break;
            }
            if self.workers.iter().any(JoinHandle::is_finished) {
                let message = "a thread of the load engine ended early; this is a bug of pgdyno";
                steering.fatal = Some(LoadError::new("engine-failed", message));
                break;
            }
            let mut wake_ns = cut_ns;
            if stopping {
                wake_ns = wake_ns.min(now_ns + DRAIN_LOOK_NS);
            } else {
                wake_ns = wake_ns.min(self.follow_schedules(&steering, now_ns));
                self.give_up_if_hopeless(&mut steering, now_ns);
                wake_ns = wake_ns.min(self.stop_if_finished(&mut steering, now_ns));
            }
            let wait = Duration::from_nanos(wake_ns.saturating_sub(now_ns));
            // Why it wakes does not matter: everything is looked at again.
            drop(self.control.changed.wait_timeout(steering, wait));
        }
        self.end();
    }

    /// Ends the interval if its second is over; returns when the current one's will be.
    fn cut_if_due(&self, now_ns: u64) -> u64 {
        let due_ns = lock(&self.shared.collector).current_started_ns() + INTERVAL_NS;
        if due_ns > now_ns {
            return due_ns;
        }
        self.shared.cut(None) + INTERVAL_NS
    }

    /// Sets every group's clients to what its schedule says; returns when one changes next.
    fn follow_schedules(&self, steering: &Steering, now_ns: u64) -> u64 {
        let elapsed_ns = now_ns - self.started_ns;
        let (mut changed, mut next_ns) = (false, u64::MAX);
        for (group, schedule) in self.shared.groups.iter().zip(&steering.schedules) {
            changed |= group.set_target(schedule.clients_at(elapsed_ns));
            if let Some(at_ns) = schedule.next_change_ns(elapsed_ns) {
                next_ns = next_ns.min(self.started_ns + at_ns);
            }
        }
        if changed {
            self.shared.post_all(|| Mail::ClientsChanged);
        }
        next_ns
    }

    /// Ends a load whose clients have had all the transactions that were asked of them; returns when
    /// to look again.
    fn stop_if_finished(&self, steering: &mut Steering, now_ns: u64) -> u64 {
        let elapsed_ns = now_ns - self.started_ns;
        if self
            .shared
            .plan
            .groups
            .iter()
            .any(|group| group.transactions.is_none())
        {
            return u64::MAX;
        }
        let over = |schedule: &Schedule| schedule.next_change_ns(elapsed_ns).is_none();
        let finished = self.shared.groups.iter().all(GroupShared::is_finished);
        if finished && steering.schedules.iter().all(over) {
            steering.state = State::Stopping;
            steering.stop_at_ns = Some(now_ns);
            self.shared.stop_arrivals();
            self.shared.post_all(|| Mail::Stop(now_ns));
        }
        now_ns + FINISH_LOOK_NS
    }

    /// A thread that cannot go on has stopped them all.
    fn end_if_failed(&self, steering: &mut Steering, now_ns: u64) {
        if let Some(error) = self.shared.failure() {
            steering.fatal.get_or_insert(error);
            steering.state = State::Stopping;
            steering.stop_at_ns.get_or_insert(now_ns);
        }
    }

    fn give_up_if_hopeless(&self, steering: &mut Steering, now_ns: u64) {
        if self.shared.groups.iter().all(|group| group.clients() == 0) {
            return self.shared.health.forget();
        }
        let Some((gone_ns, why)) = self.shared.health.gone(now_ns) else {
            return;
        };
        if gone_ns < self.shared.plan.give_up_after_ns {
            return;
        }
        let seconds = Duration::from_nanos(gone_ns).as_secs_f64();
        let message = format!("no connection to the server for {seconds:.1} s: {why}");
        let hint = "the server's own log says why it is gone or refuses connections";
        steering.fatal = Some(LoadError::new("server-gone", message).with_hint(hint));
        steering.state = State::Stopping;
        steering.stop_at_ns = Some(now_ns);
        self.shared.stop_arrivals();
        self.shared.post_all(|| Mail::Stop(now_ns));
    }

    fn end(self) {
        lock(&self.shared.collector).close();
        self.shared.post_all(|| Mail::Exit);
        for worker in self.workers {
            // The counts of one that panicked are missing, and its last interval never ends; that it
            // ended early was noticed before.
            let _ = worker.join();
        }
        let mut left = Vec::new();
        for mailbox in &self.shared.mailboxes {
            for mail in mailbox.take() {
                if let Mail::Handover(_, client) = mail {
                    left.push(client);
                }
            }
        }
        for group in &self.shared.groups {
            left.extend(std::iter::from_fn(|| lock(&group.pool).take_first()));
        }
        let waiting = self
            .shared
            .plan
            .count_open(left.iter().map(|client| &**client));
        self.shared.finish_arrivals();
        let mut collector = lock(&self.shared.collector);
        collector.add_waiting(&waiting);
        collector.finish(monotonic_ns());
        drop(collector);
        lock(&self.control.steering).state = State::Stopped;
    }
}
