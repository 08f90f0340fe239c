//! What one thread counts within one interval, and how the threads' counts are put together.
//!
//! Each figure is counted where its own event happens, none by subtraction, so that the ledger
//! identity (intended = done + failed + skipped + cancelled + backlog) checks the engine itself.

use std::collections::HashMap;

use crate::histogram::Histogram;
use crate::plan::Plan;
use crate::sys::CpuTime;

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
    /// Transactions begun minus ended; negative in one thread when clients move to it from another.
    pub open: i64,
    /// Intended → done, of those done.
    pub response: Histogram,
    /// Intended → sent, of those done.
    pub wait: Histogram,
    /// The part of `wait` in the pool's queue, of those done.
    pub pool_wait: Histogram,
    /// Sent → done, of those done.
    pub service: Histogram,
}

/// Counts of one statement.
#[derive(Debug, Default)]
pub struct StatementTally {
    /// Answered as wanted.
    pub done: u64,
    /// Failed.
    pub failed: u64,
    /// Sent → answered, of those done.
    pub service: Histogram,
}

/// Counts of one group's connections.
#[derive(Debug, Default, Clone, Copy)]
pub struct GroupTally {
    /// Connections established, whether for the first time or again.
    pub connects: u64,
    /// Those of them that replaced a lost one.
    pub reconnects: u64,
}

/// What tells errors apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ErrorKey {
    /// Group, by number.
    pub group: usize,
    /// Where it happened.
    pub place: Place,
    /// SQLSTATE, or a code of the engine's own such as `connection-lost`.
    pub code: Code,
    /// Announced by `\expect`.
    pub expected: bool,
    /// The transaction was tried again.
    pub retried: bool,
}

/// Where an error happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// In a script, by its number in the group; at a statement, by its position, if at one.
    Script(usize, Option<usize>),
    /// While a connection was being established.
    Connect,
    /// On a connection that was not in use.
    Idle,
}

/// A SQLSTATE or a code of the engine's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// Five characters from the server.
    Sqlstate([u8; 5]),
    /// The engine's own word.
    Own(&'static str),
}

impl Code {
    /// From the server's text, which is five characters long by the time it comes here.
    #[must_use]
    pub fn sqlstate(text: &str) -> Self {
        text.as_bytes()
            .try_into()
            .map_or(Self::Own("sqlstate-invalid"), Self::Sqlstate)
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Sqlstate(code) => std::str::from_utf8(code).unwrap_or("?????"),
            Self::Own(code) => code,
        }
    }
}

/// A thread's audit of itself.
#[derive(Debug, Default)]
pub struct ThreadTally {
    /// CPU time within the interval.
    pub cpu: CpuTime,
    /// Runnable without running, within the interval, in microseconds.
    pub run_queue_delay_us: u64,
    /// Longest pass of the event loop, in nanoseconds.
    pub loop_stall_ns_max: u64,
    /// Due, and a connection at hand → first byte written.
    pub send_late: Histogram,
}

/// One thread's counts of one interval.
#[derive(Debug)]
pub struct Tally {
    /// By row: scripts of all groups, one after the other.
    pub scripts: Vec<ScriptTally>,
    /// By row and position: statements of all scripts, one after the other.
    pub statements: Vec<StatementTally>,
    /// By group.
    pub groups: Vec<GroupTally>,
    /// By group: connections open at the interval's end.
    pub connections: Vec<u64>,
    /// Errors, each with its count and the first message seen.
    pub errors: HashMap<ErrorKey, (u64, String)>,
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
            groups: vec![GroupTally::default(); plan.groups.len()],
            connections: vec![0; plan.groups.len()],
            errors: HashMap::new(),
            thread: ThreadTally::default(),
        }
    }

    /// Counts an error.
    pub fn error(&mut self, key: ErrorKey, message: &str) {
        self.errors
            .entry(key)
            .or_insert_with(|| (0, message.to_owned()))
            .0 += 1;
    }

    /// Sets everything to zero and keeps the memory.
    pub fn clear(&mut self) {
        for script in &mut self.scripts {
            script.clear();
        }
        for statement in &mut self.statements {
            statement.done = 0;
            statement.failed = 0;
            statement.service.clear();
        }
        self.groups.fill(GroupTally::default());
        self.connections.fill(0);
        self.errors.clear();
        self.thread.send_late.clear();
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
            mine.service.add(&theirs.service);
        }
        for (mine, theirs) in self.groups.iter_mut().zip(&other.groups) {
            mine.connects += theirs.connects;
            mine.reconnects += theirs.reconnects;
        }
        for (mine, theirs) in self.connections.iter_mut().zip(&other.connections) {
            *mine += theirs;
        }
        for (key, (count, message)) in &other.errors {
            self.errors
                .entry(key.clone())
                .or_insert_with(|| (0, message.clone()))
                .0 += count;
        }
    }
}

impl ScriptTally {
    fn clear(&mut self) {
        let keep = |histogram: &mut Histogram| {
            histogram.clear();
            std::mem::take(histogram)
        };
        *self = Self {
            response: keep(&mut self.response),
            wait: keep(&mut self.wait),
            pool_wait: keep(&mut self.pool_wait),
            service: keep(&mut self.service),
            ..Self::default()
        };
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
        self.open += other.open;
        self.response.add(&other.response);
        self.wait.add(&other.wait);
        self.pool_wait.add(&other.pool_wait);
        self.service.add(&other.service);
    }
}
