//! A load from outside: made from a configuration, started, steered, stopped, polled for counts.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::acks::AckFile;
use crate::config::{check_rate, check_session};
use crate::coordinator::{Control, Coordinator, State};
use crate::error::LoadError;
use crate::plan::{Plan, PlanError};
use crate::reactor::{Choice, Reactor};
use crate::report::{Interval, Reporter};
use crate::sample::SampledTransaction;
use crate::schedule::Schedule;
use crate::shared::{Mail, Mailbox, Records, Shared};
use crate::sys::lock;
use crate::sys::{Bell, monotonic_ns, raise_open_files};
use crate::target::Target;
use crate::threads::{no_reactor, no_thread, spawn_workers};
use crate::translog::TransactionLog;

/// A load.
pub struct Load {
    plan: Mutex<Option<Plan>>,
    running: Mutex<Option<Running>>,
    reporter: Mutex<Option<Reporter>>,
}

/// The parts of a running load.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The way sockets are watched: `mio` or `io_uring`.
    pub reactor: &'static str,
    /// The reason.
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

    /// Makes one connection to see that it can be done, then starts the threads. Intervals carry
    /// `tag` from the first on. Returns the zero of the schedules on the monotonic clock, in
    /// nanoseconds.
    ///
    /// # Errors
    /// The server cannot be reached or refuses, in its own words; or the load was started before.
    pub fn start(&self, tag: Option<i64>) -> Result<u64, LoadError> {
        let mut slot = lock(&self.plan);
        let Some(plan) = slot.as_ref() else {
            return Err(LoadError::new(
                "already-started",
                "the load was started before",
            ));
        };
        let timeout = Duration::from_nanos(plan.connect_timeout_ns);
        let targets = targets(plan, timeout)?;
        raise_open_files();
        let (reactors, choice) = Reactor::for_threads(plan.reactor, plan.threads)
            .map_err(|error| no_reactor(plan.reactor, &error))?;
        let mut records = Records::default();
        if let Some(acks) = &plan.acks {
            records.acks = AckFile::create_all(&acks.directory, plan)?;
        }
        if let Some(log) = &plan.log {
            records.logs = TransactionLog::create_all(log, plan)?;
        }
        let Some(plan) = slot.take() else {
            return Err(LoadError::new(
                "already-started",
                "the load was started before",
            ));
        };
        let (running, started_ns) = spawn(plan, targets, reactors, choice, records, tag)?;
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
    pub fn end_interval(&self, tag: Option<i64>) -> u64 {
        let Some(shared) = self.shared() else {
            return monotonic_ns();
        };
        let now_ns = shared.end_interval(Some(tag));
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
        if shared.plan.groups[number].idle {
            let message = format!("client group {group:?} is idle: its clients use no pool");
            return Err(LoadError::new("config-invalid", message));
        }
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

    /// Has every session execute `sql` before its next transaction, and new ones before their
    /// first; it is no part of the transaction. What an earlier call gave, `sql` has to take back.
    ///
    /// # Errors
    /// It is not SQL that can be sent, or the load does not run.
    pub fn set_session(&self, sql: &str) -> Result<(), LoadError> {
        check_session(sql)?;
        let (shared, _) = self.steer()?;
        shared.set_session(sql);
        Ok(())
    }

    /// Transactions of the load as they were sent, the last few of each script.
    pub fn samples(&self) -> Vec<SampledTransaction> {
        self.shared().map_or_else(Vec::new, |shared| {
            lock(&shared.samples).iter().cloned().collect()
        })
    }

    /// Phase of the load.
    pub fn state(&self) -> State {
        lock(&self.running)
            .as_ref()
            .map_or(State::New, |running| lock(&running.control.steering).state)
    }

    /// Connections that are established now, of all groups.
    pub fn connections(&self) -> usize {
        self.shared()
            .map_or(0, |shared| shared.health.established())
    }

    /// The error that ended the load, if so.
    pub fn fatal(&self) -> Option<LoadError> {
        let running = lock(&self.running);
        running
            .as_ref()
            .and_then(|running| lock(&running.control.steering).fatal.clone())
    }

    /// Its parts; `None` before the start.
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
            running.control.wake();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

/// The server of each group, reached: of all that speak PostgreSQL's protocol it is the same.
fn targets(plan: &Plan, timeout: Duration) -> Result<Vec<Arc<Target>>, LoadError> {
    let is_wanted = plan.groups.iter().any(|group| group.http.is_none());
    let database = match plan.target.as_ref().filter(|_| is_wanted) {
        Some(config) => {
            let reached = Target::reach(config, plan.application_names(), timeout)?;
            Some(Arc::new(reached))
        }
        None => None,
    };
    let groups = plan.groups.iter().map(|group| match &group.http {
        Some(http) => Ok(Arc::new(Target::http(&http.config)?.reached(timeout)?)),
        None => database
            .clone()
            .ok_or_else(|| LoadError::new("config-invalid", "the load has no server")),
    });
    groups.collect()
}

fn spawn(
    plan: Plan,
    targets: Vec<Arc<Target>>,
    reactors: Vec<(Reactor, Arc<Bell>)>,
    choice: Choice,
    records: Records,
    tag: Option<i64>,
) -> Result<(Running, u64), LoadError> {
    let schedules: Vec<Schedule> = plan
        .groups
        .iter()
        .map(|group| group.schedule.clone())
        .collect();
    let (reactors, bells): (Vec<_>, Vec<_>) = reactors.into_iter().unzip();
    let mailboxes = bells.into_iter().map(Mailbox::new).collect();
    let started_ns = monotonic_ns();
    let shared = Arc::new(Shared::new(
        plan, targets, mailboxes, records, started_ns, tag,
    ));
    for (group, schedule) in shared.groups.iter().zip(&schedules) {
        group.set_target(schedule.clients_at(0));
    }
    let control = Arc::new(Control::new(schedules));
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
