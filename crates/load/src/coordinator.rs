//! The coordinator, one thread beside the workers: ends an interval each second, follows the
//! schedules of clients, stops a load that is finished, and gives up when the server has been gone
//! for too long.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::LoadError;
use crate::schedule::Schedule;
use crate::shared::{Mail, Shared};
use crate::sys::lock;
use crate::sys::monotonic_ns;

/// Length of an interval that is not ended early.
const INTERVAL_NS: u64 = 1_000_000_000;
/// Interval of checks whether all clients have executed their transactions.
const FINISH_LOOK_NS: u64 = 5_000_000;
/// Interval of checks whether all threads have ended, after a stop.
const DRAIN_LOOK_NS: u64 = 1_000_000;

/// The state of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Made, not started.
    New,
    /// Running.
    Running,
    /// Stopping; transactions are still active.
    Stopping,
    /// Over.
    Stopped,
}

/// State that the coordinator shares with the controlling thread.
pub struct Control {
    /// The present state of the load, and the required one.
    pub steering: Mutex<Steering>,
    changed: Condvar,
}

/// The present state of a load, and the required one.
pub struct Steering {
    /// In its life.
    pub state: State,
    /// Clients over time, by group.
    pub schedules: Vec<Schedule>,
    stop_at_ns: Option<u64>,
    /// The error that ends it, if any.
    pub fatal: Option<LoadError>,
}

impl Control {
    /// Of a load that runs.
    #[must_use]
    pub fn new(schedules: Vec<Schedule>) -> Self {
        let steering = Steering {
            state: State::Running,
            schedules,
            stop_at_ns: None,
            fatal: None,
        };
        Self {
            steering: Mutex::new(steering),
            changed: Condvar::new(),
        }
    }

    /// Wakes the coordinator: something has changed.
    pub fn wake(&self) {
        self.changed.notify_one();
    }

    /// Ends the load: nothing new starts, and active transactions are cancelled after `drain`.
    pub fn stop(&self, shared: &Shared, drain: Duration) {
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
        self.wake();
    }
}

/// Ends intervals, follows schedules, watches over the end.
pub struct Coordinator {
    /// State shared with the workers.
    pub shared: Arc<Shared>,
    /// State shared with the controlling thread.
    pub control: Arc<Control>,
    /// The threads that it ends.
    pub workers: Vec<JoinHandle<()>>,
    /// Zero of the schedules.
    pub started_ns: u64,
}

impl Coordinator {
    /// Runs until the load is over and its threads have ended.
    pub fn run(self) {
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
                let message = "a thread of the load engine ended early; this is a bug in pgdyno";
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
        self.shared.end_interval(None) + INTERVAL_NS
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
        let groups = self.shared.plan.groups.iter().zip(&self.shared.groups);
        let mut at_work = groups.filter(|(plan, _)| !plan.idle);
        // Idle clients alone have nothing to be finished with.
        let endless = at_work.clone().next().is_none();
        if endless || at_work.clone().any(|(plan, _)| plan.transactions.is_none()) {
            return u64::MAX;
        }
        let over = |schedule: &Schedule| schedule.next_change_ns(elapsed_ns).is_none();
        let finished = at_work.all(|(_, group)| group.is_finished());
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
        let hint = "see the server log for why it is down or refuses connections";
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
            for pool in &group.pools {
                left.extend(std::iter::from_fn(|| lock(pool).take_first()));
            }
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
