//! Counts of a thread in an interval, and their sum over threads.
//!
//! Each figure is counted where its own event happens, none by subtraction, so that the ledger
//! identity (intended = done + failed + skipped + cancelled + backlog) checks the engine itself.

use std::collections::HashMap;

use crate::arrival::Counts;
use crate::failure::{Code, Failure};
use crate::histogram::Histogram;
use crate::plan::Plan;
use crate::sys::CpuTime;
use crate::times::{ConnectTimes, Times};

/// Most kinds of errors that a thread tells apart within an interval.
const KINDS_MAX: usize = 1000;
/// Most errors that a thread hands out one by one within an interval.
const REPORTS_MAX: usize = 1000;
/// From this time on a client that waits for an answer counts as one without.
pub const UNANSWERED_NS: u64 = 2_000_000_000;

/// Counts of one script in one group.
#[derive(Debug, Default)]
pub struct ScriptTally {
    /// Transactions whose intended time came.
    pub intended: u64,
    /// Those whose first byte left.
    pub sent: u64,
    /// Those that ended well.
    pub done: u64,
    /// Those that ended with an error.
    pub failed: u64,
    /// Those that were given up before they were sent, on purpose.
    pub skipped: u64,
    /// Those that the end of the load cut off after they were sent.
    pub cancelled: u64,
    /// Tries after the first, of any transaction.
    pub retried: u64,
    /// Statements that failed as `\expect` said they would.
    pub expected_errors: u64,
    /// Those done whose response took longer than the group's limit.
    pub late: u64,
    /// Transactions begun minus ended; negative in one thread when clients move to it from another.
    pub open: i64,
    /// Times of those done.
    pub spans: SpanTally,
}

/// Parts of the response time of transactions that are done.
///
/// Most transactions wait for nothing but their client: their lag is their whole wait. So they are
/// recorded once, in `lag_alone`, and zeros not at all; [`SpanTally::complete`] makes up for it.
#[derive(Debug, Default)]
pub struct SpanTally {
    /// Transactions, done.
    count: u64,
    /// Waits of those that waited for nothing but their client, unless 0.
    lag_alone: Histogram,
    /// Intended → done.
    pub response: Histogram,
    /// Intended → sent.
    pub wait: Histogram,
    /// The part of `wait` that is neither of the two below.
    pub client_lag: Histogram,
    /// The part of `wait` in the pool's queue.
    pub pool_wait: Histogram,
    /// The part of `wait` in which a connection was established.
    pub connect: Histogram,
    /// Sent → done.
    pub service: Histogram,
}

impl SpanTally {
    /// Counts a transaction; returns its response time.
    fn record(&mut self, times: &Times) -> u64 {
        let spans = times.spans();
        self.count += 1;
        self.response.record(spans.response_ns);
        self.service.record(spans.service_ns);
        if spans.pool_wait_ns == 0 && spans.connect_ns == 0 {
            self.lag_alone.record_unless_0(spans.wait_ns);
            return spans.response_ns;
        }
        self.wait.record(spans.wait_ns);
        self.client_lag.record_unless_0(spans.client_lag_ns);
        self.pool_wait.record_unless_0(spans.pool_wait_ns);
        self.connect.record_unless_0(spans.connect_ns);
        spans.response_ns
    }

    /// Makes every histogram hold a value of every transaction. Not twice, and nothing can be
    /// recorded or added afterwards.
    pub fn complete(&mut self) {
        self.wait.add(&self.lag_alone);
        self.client_lag.add(&self.lag_alone);
        for histogram in [
            &mut self.wait,
            &mut self.client_lag,
            &mut self.pool_wait,
            &mut self.connect,
        ] {
            histogram.record_n(0, self.count.saturating_sub(histogram.count()));
        }
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        let theirs = other.histograms();
        for (mine, theirs) in self.histograms_mut().into_iter().zip(theirs) {
            mine.add(theirs);
        }
    }

    fn clear(&mut self) {
        self.count = 0;
        self.histograms_mut().into_iter().for_each(Histogram::clear);
    }

    fn histograms(&self) -> [&Histogram; 7] {
        [
            &self.lag_alone,
            &self.response,
            &self.wait,
            &self.client_lag,
            &self.pool_wait,
            &self.connect,
            &self.service,
        ]
    }

    fn histograms_mut(&mut self) -> [&mut Histogram; 7] {
        [
            &mut self.lag_alone,
            &mut self.response,
            &mut self.wait,
            &mut self.client_lag,
            &mut self.pool_wait,
            &mut self.connect,
            &mut self.service,
        ]
    }
}

/// Counts of one statement.
#[derive(Debug, Default)]
pub struct StatementTally {
    /// Answered as wanted.
    pub done: u64,
    /// Failed.
    pub failed: u64,
    /// Those done that were to change or delete rows, and there were none.
    pub untouched: u64,
    /// Sent → answered, of those done.
    pub service: Histogram,
    /// Of requests: sent → first byte of the response.
    pub first_byte: Histogram,
}

/// Counts of one group's connections.
#[derive(Debug, Default)]
pub struct GroupTally {
    /// Open at the interval's end.
    pub connections: u64,
    /// Connections established, whether for the first time or again.
    pub connects: u64,
    /// Those of them that replaced a lost one.
    pub reconnects: u64,
    /// Attempts that failed.
    pub connect_failures: u64,
    /// Clients that have waited for an answer for [`UNANSWERED_NS`] or longer at the interval's end.
    pub unanswered: u64,
    /// The longest time of these, so far.
    pub unanswered_ns_max: u64,
    /// Establishing: the socket.
    pub tcp: Histogram,
    /// Establishing: TLS, of those that use it.
    pub tls: Histogram,
    /// Establishing: until the server accepted who the client is.
    pub auth: Histogram,
    /// Establishing: from there until the first statement could be sent.
    pub ready: Histogram,
    /// Establishing: all of it.
    pub total: Histogram,
    /// Of connections to a database that were closed from the other side without a word: from the
    /// last byte in either direction to that.
    pub silence: Histogram,
    /// Requests by HTTP.
    pub http: HttpTally,
}

/// Counts of one group's requests by HTTP.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct HttpTally {
    /// Requests that were sent.
    pub requests: u64,
    /// Those of them over a connection that had served another.
    pub reused: u64,
    /// Those of them that a redirect led to.
    pub redirected: u64,
    /// Responses by the first digit of their status, from 1.
    pub statuses: [u64; 5],
    /// Connections that the server closed.
    pub closed_by_server: u64,
    /// Bytes of requests.
    pub sent_bytes: u64,
    /// Bytes of responses, without those of TLS.
    pub received_bytes: u64,
}

impl HttpTally {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.reused += other.reused;
        self.redirected += other.redirected;
        self.closed_by_server += other.closed_by_server;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        for (mine, theirs) in self.statuses.iter_mut().zip(other.statuses) {
            *mine += theirs;
        }
    }
}

impl GroupTally {
    /// A connection was established; `again` if it replaces a lost one.
    pub fn connected(&mut self, times: &ConnectTimes, again: bool) {
        self.connects += 1;
        self.reconnects += u64::from(again);
        self.tcp.record(times.tcp_ns);
        if let Some(tls_ns) = times.tls_ns {
            self.tls.record(tls_ns);
        }
        self.auth.record(times.auth_ns);
        self.ready.record(times.ready_ns);
        self.total.record(times.total_ns);
    }

    /// At the interval's end a client has waited so long for an answer.
    pub fn waits(&mut self, waited_ns: u64) {
        if waited_ns >= UNANSWERED_NS {
            self.unanswered += 1;
            self.unanswered_ns_max = self.unanswered_ns_max.max(waited_ns);
        }
    }

    /// A connection could not be established.
    pub fn connect_failed(&mut self) {
        self.connect_failures += 1;
    }

    fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.connects += other.connects;
        self.reconnects += other.reconnects;
        self.connect_failures += other.connect_failures;
        self.unanswered += other.unanswered;
        self.unanswered_ns_max = self.unanswered_ns_max.max(other.unanswered_ns_max);
        self.http.add(&other.http);
        let theirs = other.histograms();
        for (mine, theirs) in self.histograms_mut().into_iter().zip(theirs) {
            mine.add(theirs);
        }
    }

    fn clear(&mut self) {
        self.connections = 0;
        self.connects = 0;
        self.reconnects = 0;
        self.connect_failures = 0;
        self.unanswered = 0;
        self.unanswered_ns_max = 0;
        self.http = HttpTally::default();
        self.histograms_mut().into_iter().for_each(Histogram::clear);
    }

    fn histograms(&self) -> [&Histogram; 6] {
        [
            &self.tcp,
            &self.tls,
            &self.auth,
            &self.ready,
            &self.total,
            &self.silence,
        ]
    }

    fn histograms_mut(&mut self) -> [&mut Histogram; 6] {
        [
            &mut self.tcp,
            &mut self.tls,
            &mut self.auth,
            &mut self.ready,
            &mut self.total,
            &mut self.silence,
        ]
    }
}

/// The key that distinguishes errors.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ErrorKey {
    /// Group, by number.
    pub group: usize,
    /// Its position.
    pub place: Place,
    /// SQLSTATE, or a code of the engine's own such as `connection-lost`.
    pub code: Code,
    /// Announced by `\expect`.
    pub expected: bool,
    /// The transaction was tried again.
    pub retried: bool,
}

impl ErrorKey {
    /// Of an error that nobody announced, and after which nothing is tried again.
    #[must_use]
    pub fn new(group: usize, place: Place, code: Code) -> Self {
        Self {
            group,
            place,
            code,
            expected: false,
            retried: false,
        }
    }
}

/// Position of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// In a script, by its number in the group; at a command, by its place, if at one.
    Script(usize, Option<usize>),
    /// While a connection was being established.
    Connect,
    /// On a connection that was not in use.
    Idle,
}

/// Errors of one kind.
#[derive(Debug, Clone)]
pub struct Errors {
    /// Their number.
    pub count: u64,
    /// The first of them.
    pub first: Seen,
}

/// An error, and the client that it happened to.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The error.
    pub failure: Failure,
    /// The client, by number in its group.
    pub client: Option<u32>,
}

/// A thread's audit of itself.
#[derive(Debug, Default)]
pub struct ThreadTally {
    /// CPU time within the interval.
    pub cpu: CpuTime,
    /// Runnable without running, within the interval, in microseconds.
    pub run_queue_delay_us: u64,
    /// Passes of the event loop.
    pub passes: u64,
    /// Longest of them, in nanoseconds.
    pub loop_stall_ns_max: u64,
    /// Due, and a connection at hand → first byte written.
    pub send_late: Histogram,
}

/// Counts of one thread in one interval.
#[derive(Debug)]
pub struct Tally {
    /// By row: scripts of all groups, one after the other.
    pub scripts: Vec<ScriptTally>,
    /// By row and position: statements of all scripts, one after the other.
    pub statements: Vec<StatementTally>,
    /// By group.
    pub groups: Vec<GroupTally>,
    /// Errors by kind.
    pub errors: HashMap<ErrorKey, Errors>,
    /// Each of them, the first so many, if they are wanted.
    pub reports: Vec<(ErrorKey, Seen)>,
    /// Largest number of reports.
    reports_max: usize,
    /// The thread itself.
    pub thread: ThreadTally,
}

impl Tally {
    /// All zero.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self {
            scripts: (0..plan.rows()).map(|_| ScriptTally::default()).collect(),
            statements: (0..plan.statements())
                .map(|_| StatementTally::default())
                .collect(),
            groups: plan.groups.iter().map(|_| GroupTally::default()).collect(),
            errors: HashMap::new(),
            reports: Vec::new(),
            reports_max: if plan.verbose_errors { REPORTS_MAX } else { 0 },
            thread: ThreadTally::default(),
        }
    }

    /// Counts an error, of a client if of one. Where there are too many kinds, further ones are put
    /// together by group.
    pub fn error(&mut self, mut key: ErrorKey, failure: &Failure, client: Option<u32>) {
        let seen = || Seen {
            failure: failure.clone(),
            client,
        };
        if self.reports.len() < self.reports_max {
            self.reports.push((key.clone(), seen()));
        }
        if self.errors.len() >= KINDS_MAX && !self.errors.contains_key(&key) {
            key.place = Place::Idle;
            key.code = Code::Own("other-errors");
        }
        let first = || Errors {
            count: 0,
            first: seen(),
        };
        self.errors.entry(key).or_insert_with(first).count += 1;
    }

    /// Sets everything to zero and keeps the memory.
    pub fn clear(&mut self) {
        for script in &mut self.scripts {
            script.clear();
        }
        for statement in &mut self.statements {
            statement.done = 0;
            statement.failed = 0;
            statement.untouched = 0;
            statement.service.clear();
            statement.first_byte.clear();
        }
        self.groups.iter_mut().for_each(GroupTally::clear);
        self.errors.clear();
        self.reports.clear();
        self.thread.send_late.clear();
        self.thread.passes = 0;
        self.thread.loop_stall_ns_max = 0;
    }

    /// Adds another thread's counts of the same interval, except its audit of itself.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.scripts.iter_mut().zip(&other.scripts) {
            mine.add(theirs);
        }
        for (mine, theirs) in self.statements.iter_mut().zip(&other.statements) {
            mine.done += theirs.done;
            mine.failed += theirs.failed;
            mine.untouched += theirs.untouched;
            mine.service.add(&theirs.service);
            mine.first_byte.add(&theirs.first_byte);
        }
        for (mine, theirs) in self.groups.iter_mut().zip(&other.groups) {
            mine.add(theirs);
        }
        for (key, theirs) in &other.errors {
            let first = || Errors {
                count: 0,
                first: theirs.first.clone(),
            };
            self.errors.entry(key.clone()).or_insert_with(first).count += theirs.count;
        }
        self.reports.extend_from_slice(&other.reports);
    }
}

impl ScriptTally {
    /// A transaction ended well; it is late if its response took longer than `limit_ns`.
    pub fn end_well(&mut self, times: &Times, limit_ns: u64) {
        self.done += 1;
        let response_ns = self.spans.record(times);
        self.late += u64::from(response_ns > limit_ns);
    }

    fn clear(&mut self) {
        self.spans.clear();
        *self = Self {
            spans: std::mem::take(&mut self.spans),
            ..Self::default()
        };
    }

    /// Adds what became due of an open loop.
    pub fn add_arrivals(&mut self, counts: &Counts) {
        self.intended += counts.intended;
        self.skipped += counts.skipped;
        self.open += counts.intended.cast_signed() - counts.skipped.cast_signed();
    }

    fn add(&mut self, other: &Self) {
        self.intended += other.intended;
        self.sent += other.sent;
        self.done += other.done;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.cancelled += other.cancelled;
        self.retried += other.retried;
        self.expected_errors += other.expected_errors;
        self.late += other.late;
        self.open += other.open;
        self.spans.add(&other.spans);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_times() -> impl Strategy<Value = Times> {
        let some = || prop_oneof![2 => Just(0_u64), 3 => 1_u64..5_000_000];
        (1_u64..1_000_000, some(), some(), some(), some()).prop_map(
            |(intended_ns, pool_ns, connect_ns, lag_ns, service_ns)| {
                let granted_ns = intended_ns + pool_ns + connect_ns;
                Times {
                    intended_ns,
                    queued_ns: if pool_ns == 0 { 0 } else { intended_ns },
                    granted_ns,
                    connect_ns,
                    sent_ns: granted_ns + lag_ns,
                    done_ns: granted_ns + lag_ns + service_ns,
                }
            },
        )
    }

    /// Every histogram with every value, zeros too.
    fn plainly(all: &[Times]) -> [Histogram; 6] {
        let mut plain: [Histogram; 6] = Default::default();
        for times in all {
            let spans = times.spans();
            let values = [
                spans.response_ns,
                spans.wait_ns,
                spans.client_lag_ns,
                spans.pool_wait_ns,
                spans.connect_ns,
                spans.service_ns,
            ];
            for (histogram, value) in plain.iter_mut().zip(values) {
                histogram.record(value);
            }
        }
        plain
    }

    proptest! {
        #[test]
        fn recording_less_and_completing_is_recording_all(
            threads in prop::collection::vec(prop::collection::vec(any_times(), 0..30), 1..4),
            limit_ns in 0_u64..5_000_000,
        ) {
            let mut sum = ScriptTally::default();
            for thread in &threads {
                let mut part = ScriptTally::default();
                for times in thread {
                    part.end_well(times, limit_ns);
                }
                sum.add(&part);
                part.clear();
                prop_assert_eq!(part.spans.count, 0);
                prop_assert!(part.spans.histograms().iter().all(|h| h.count() == 0));
            }
            sum.spans.complete();
            let all = threads.concat();
            let spans = &sum.spans;
            let completed = [
                &spans.response,
                &spans.wait,
                &spans.client_lag,
                &spans.pool_wait,
                &spans.connect,
                &spans.service,
            ];
            for (completed, plain) in completed.into_iter().zip(plainly(&all)) {
                prop_assert!(completed.buckets().eq(plain.buckets()));
            }
            let late = all.iter().filter(|times| times.spans().response_ns > limit_ns).count();
            prop_assert_eq!((sum.done, sum.late), (all.len() as u64, late as u64));
        }
    }
}
