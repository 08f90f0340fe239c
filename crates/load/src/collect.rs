//! Puts the threads' counts of each interval together and hands finished intervals out.

use std::collections::VecDeque;

use crate::histogram::Histogram;
use crate::plan::Plan;
use crate::tally::{Place, Tally, ThreadTally};

/// Spare tallies kept for reuse, per thread.
const SPARE_PER_THREAD: usize = 2;

/// Intervals on their way from the threads to who polls for them.
#[derive(Debug)]
pub struct Collector {
    threads: usize,
    first: u64,
    pending: VecDeque<Pending>,
    spare: Vec<Tally>,
    /// By row: transactions open at the end of the last interval handed out.
    backlog: Vec<i64>,
    /// By row: what waits unsent after the end, for the last interval.
    final_backlog: Option<Vec<u64>>,
    closed: bool,
}

#[derive(Debug)]
struct Pending {
    started_ns: u64,
    ended_ns: Option<u64>,
    tag: Option<i64>,
    clients: Vec<u32>,
    parts: Vec<(usize, Tally)>,
}

/// A finished interval, summed over threads.
#[derive(Debug)]
pub struct Interval {
    /// Monotonic clock, in nanoseconds.
    pub started_ns: u64,
    /// Monotonic clock, in nanoseconds.
    pub ended_ns: u64,
    /// As [`Collector::cut`] was told.
    pub tag: Option<i64>,
    /// Per group and script.
    pub scripts: Vec<ScriptRow>,
    /// Per group, script and statement.
    pub statements: Vec<StatementRow>,
    /// Per kind of error.
    pub errors: Vec<ErrorRow>,
    /// Per thread.
    pub threads: Vec<ThreadRow>,
}

/// See [`crate::tally::ScriptTally`].
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ScriptRow {
    pub group: String,
    pub script: String,
    pub clients: u32,
    pub connections: u64,
    pub intended: u64,
    pub sent: u64,
    pub done: u64,
    pub failed: u64,
    pub skipped: u64,
    pub cancelled: u64,
    pub backlog: i64,
    pub retried: u64,
    pub expected_errors: u64,
    pub connects: u64,
    pub reconnects: u64,
    pub response: Vec<u8>,
    pub wait: Vec<u8>,
    pub pool_wait: Vec<u8>,
    pub service: Vec<u8>,
}

/// See [`crate::tally::StatementTally`].
#[derive(Debug)]
#[allow(missing_docs)]
pub struct StatementRow {
    pub group: String,
    pub script: String,
    pub position: usize,
    pub statement: String,
    pub done: u64,
    pub failed: u64,
    pub service: Vec<u8>,
}

/// Errors of one kind; `script` is empty for those outside of transactions.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ErrorRow {
    pub group: String,
    pub script: String,
    pub statement: String,
    pub sqlstate: String,
    pub expected: bool,
    pub retried: bool,
    pub count: u64,
    pub message: String,
}

/// See [`ThreadTally`].
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ThreadRow {
    pub thread: usize,
    pub cpu_user_us: u64,
    pub cpu_system_us: u64,
    pub run_queue_delay_us: u64,
    pub loop_stall_us_max: u64,
    pub send_late: Vec<u8>,
}

impl Collector {
    /// For a load that starts now.
    #[must_use]
    pub fn new(threads: usize, rows: usize, started_ns: u64) -> Self {
        let mut pending = VecDeque::new();
        pending.push_back(Pending::new(started_ns, None));
        Self {
            threads,
            first: 0,
            pending,
            spare: Vec::new(),
            backlog: vec![0; rows],
            final_backlog: None,
            closed: false,
        }
    }

    /// Ends the current interval and begins the next; returns the new one's number.
    pub fn cut(&mut self, now_ns: u64, tag: Option<Option<i64>>) -> u64 {
        if self.closed {
            return self.first + self.pending.len() as u64 - 1;
        }
        let mut next_tag = None;
        if let Some(current) = self.pending.back_mut() {
            current.ended_ns = Some(now_ns);
            next_tag = current.tag;
        }
        self.pending
            .push_back(Pending::new(now_ns, tag.unwrap_or(next_tag)));
        self.first + self.pending.len() as u64 - 1
    }

    /// When the current interval began.
    #[must_use]
    pub fn current_started_ns(&self) -> u64 {
        self.pending.back().map_or(0, |current| current.started_ns)
    }

    /// A tally that is zero, if one is spare.
    pub fn take_spare(&mut self) -> Option<Tally> {
        self.spare.pop()
    }

    /// A thread's counts of an interval.
    pub fn submit(&mut self, number: u64, thread: usize, tally: Tally, clients: &[u32]) {
        let index = number
            .checked_sub(self.first)
            .and_then(|index| usize::try_from(index).ok());
        if let Some(pending) = index.and_then(|index| self.pending.get_mut(index)) {
            pending.clients = clients.to_vec();
            pending.parts.push((thread, tally));
        }
    }

    /// At the very end: adds transactions that were never sent, by row, found by looking at each
    /// client that is left.
    pub fn add_waiting(&mut self, waiting: &[u64]) {
        let sum = self
            .final_backlog
            .get_or_insert_with(|| vec![0; waiting.len()]);
        for (sum, count) in sum.iter_mut().zip(waiting) {
            *sum += count;
        }
    }

    /// From now on the current interval is the last.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Ends the last interval of all.
    pub fn finish(&mut self, now_ns: u64) {
        if let Some(current) = self.pending.back_mut() {
            current.ended_ns = Some(now_ns);
        }
    }

    /// The next interval that is over on all threads, as it came.
    fn take_finished(&mut self) -> Option<Pending> {
        let first = self.pending.front()?;
        if first.ended_ns.is_none() || first.parts.len() < self.threads {
            return None;
        }
        self.first += 1;
        self.pending.pop_front()
    }

    /// The next interval that is over on all threads, put together.
    pub fn take(&mut self, plan: &Plan) -> Option<Interval> {
        let mut pending = self.take_finished()?;
        pending.parts.sort_by_key(|(thread, _)| *thread);
        let threads = pending
            .parts
            .iter()
            .map(|(thread, tally)| thread_row(*thread, &tally.thread));
        let threads = threads.collect();
        let mut parts = pending.parts.drain(..).map(|(_, tally)| tally);
        let mut sum = parts.next()?;
        let rest: Vec<Tally> = parts.collect();
        for part in &rest {
            sum.add(part);
        }
        for (backlog, script) in self.backlog.iter_mut().zip(&sum.scripts) {
            *backlog += script.open;
        }
        if let (true, Some(waiting)) = (self.pending.is_empty(), &self.final_backlog) {
            self.backlog = waiting.iter().map(|count| count.cast_signed()).collect();
        }
        let interval = Interval {
            started_ns: pending.started_ns,
            ended_ns: pending.ended_ns.unwrap_or(pending.started_ns),
            tag: pending.tag,
            scripts: script_rows(plan, &sum, &pending.clients, &self.backlog),
            statements: statement_rows(plan, &sum),
            errors: error_rows(plan, &sum),
            threads,
        };
        for mut tally in rest.into_iter().chain([sum]) {
            if self.spare.len() < SPARE_PER_THREAD * self.threads {
                tally.clear();
                self.spare.push(tally);
            }
        }
        Some(interval)
    }
}

impl Pending {
    fn new(started_ns: u64, tag: Option<i64>) -> Self {
        Self {
            started_ns,
            ended_ns: None,
            tag,
            clients: Vec::new(),
            parts: Vec::new(),
        }
    }
}

fn script_rows(plan: &Plan, sum: &Tally, clients: &[u32], backlog: &[i64]) -> Vec<ScriptRow> {
    let mut rows = Vec::with_capacity(plan.rows());
    for (number, group) in plan.groups.iter().enumerate() {
        for (index, script) in group.scripts.iter().enumerate() {
            let tally = &sum.scripts[script.row];
            let connections = if index == 0 {
                sum.groups[number]
            } else {
                Default::default()
            };
            rows.push(ScriptRow {
                group: group.name.clone(),
                script: script.script.name.clone(),
                clients: clients.get(number).copied().unwrap_or(0),
                connections: sum.connections[number],
                intended: tally.intended,
                sent: tally.sent,
                done: tally.done,
                failed: tally.failed,
                skipped: tally.skipped,
                cancelled: tally.cancelled,
                backlog: backlog[script.row],
                retried: tally.retried,
                expected_errors: tally.expected_errors,
                connects: connections.connects,
                reconnects: connections.reconnects,
                response: tally.response.encode(),
                wait: tally.wait.encode(),
                pool_wait: tally.pool_wait.encode(),
                service: tally.service.encode(),
            });
        }
    }
    rows
}

fn statement_rows(plan: &Plan, sum: &Tally) -> Vec<StatementRow> {
    let mut rows = Vec::with_capacity(plan.statements());
    for group in &plan.groups {
        for script in &group.scripts {
            let tallies = &sum.statements[script.statement_row..];
            for (statement, tally) in script.script.statements().zip(tallies) {
                rows.push(StatementRow {
                    group: group.name.clone(),
                    script: script.script.name.clone(),
                    position: statement.position,
                    statement: shortened(&statement.text),
                    done: tally.done,
                    failed: tally.failed,
                    service: tally.service.encode(),
                });
            }
        }
    }
    rows
}

fn error_rows(plan: &Plan, sum: &Tally) -> Vec<ErrorRow> {
    let mut rows: Vec<ErrorRow> = sum
        .errors
        .iter()
        .map(|(key, (count, message))| {
            let group = &plan.groups[key.group];
            let (script, statement) = match key.place {
                Place::Connect => (String::new(), "connect".to_owned()),
                Place::Idle => (String::new(), String::new()),
                Place::Script(number, position) => {
                    let script = &group.scripts[number].script;
                    let statement = position.and_then(|position| script.statements().nth(position));
                    (
                        script.name.clone(),
                        statement.map_or(String::new(), |s| shortened(&s.text)),
                    )
                }
            };
            ErrorRow {
                group: group.name.clone(),
                script,
                statement,
                sqlstate: key.code.as_str().to_owned(),
                expected: key.expected,
                retried: key.retried,
                count: *count,
                message: message.clone(),
            }
        })
        .collect();
    rows.sort_by(|a, b| {
        b.count
            .cmp(&a.count)
            .then_with(|| a.sqlstate.cmp(&b.sqlstate))
    });
    rows
}

fn thread_row(thread: usize, tally: &ThreadTally) -> ThreadRow {
    ThreadRow {
        thread,
        cpu_user_us: tally.cpu.user_us,
        cpu_system_us: tally.cpu.system_us,
        run_queue_delay_us: tally.run_queue_delay_us,
        loop_stall_us_max: tally.loop_stall_ns_max / 1000,
        send_late: Histogram::encode(&tally.send_late),
    }
}

/// A statement on one line, cut to a length that fits a table.
fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 200;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= CHARACTERS_MAX {
        return line;
    }
    line.chars().take(CHARACTERS_MAX - 1).chain(['…']).collect()
}
