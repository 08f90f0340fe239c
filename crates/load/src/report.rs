//! Finished intervals as they are handed out: the threads' counts put together, histograms encoded.

use crate::collect::Finished;
use crate::failure::Code;
use crate::plan::Plan;
use crate::script::{Command, Origin};
use crate::tally::{ErrorKey, HttpTally, Place, Seen, Tally, ThreadTally};

/// A finished interval, summed over threads.
#[derive(Debug)]
pub struct Interval {
    /// Monotonic clock, in nanoseconds.
    pub started_ns: u64,
    /// Monotonic clock, in nanoseconds.
    pub ended_ns: u64,
    /// The tag passed to [`Collector::end_interval`].
    pub tag: Option<i64>,
    /// Per group and script.
    pub scripts: Vec<ScriptRow>,
    /// Per group.
    pub groups: Vec<GroupRow>,
    /// Per group, script and statement.
    pub statements: Vec<StatementRow>,
    /// Per kind of error.
    pub errors: Vec<ErrorRow>,
    /// Errors one by one, the first so many, if they are wanted.
    pub reports: Vec<ErrorRow>,
    /// Per thread.
    pub threads: Vec<ThreadRow>,
}

/// See [`crate::tally::ScriptTally`].
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ScriptRow {
    pub group: String,
    pub script: String,
    pub intended: u64,
    pub sent: u64,
    pub done: u64,
    pub failed: u64,
    pub skipped: u64,
    pub cancelled: u64,
    pub backlog: i64,
    pub retried: u64,
    pub expected_errors: u64,
    pub late: u64,
    pub response: Vec<u8>,
    pub wait: Vec<u8>,
    pub client_lag: Vec<u8>,
    pub pool_wait: Vec<u8>,
    pub connect: Vec<u8>,
    pub service: Vec<u8>,
}

/// See [`crate::tally::GroupTally`].
#[derive(Debug)]
#[allow(missing_docs)]
pub struct GroupRow {
    pub group: String,
    pub clients: u32,
    pub connections: u64,
    pub connects: u64,
    pub reconnects: u64,
    pub connect_failures: u64,
    pub unanswered: u64,
    pub unanswered_us_max: u64,
    pub tcp: Vec<u8>,
    pub tls: Vec<u8>,
    pub auth: Vec<u8>,
    pub ready: Vec<u8>,
    pub total: Vec<u8>,
    pub silence: Vec<u8>,
    pub http: Option<HttpRow>,
}

/// See [`crate::tally::HttpTally`].
#[derive(Debug)]
#[allow(missing_docs)]
pub struct HttpRow {
    pub requests: u64,
    pub reused: u64,
    pub redirected: u64,
    pub status_1xx: u64,
    pub status_2xx: u64,
    pub status_3xx: u64,
    pub status_4xx: u64,
    pub status_5xx: u64,
    pub closed_by_server: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
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
    pub untouched: u64,
    pub service: Vec<u8>,
    pub first_byte: Option<Vec<u8>>,
}

/// Errors of one kind; `script` is empty for those outside of transactions.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ErrorRow {
    pub group: String,
    pub script: String,
    pub file: String,
    pub line: Option<u32>,
    pub statement: String,
    pub client: Option<u32>,
    pub sqlstate: String,
    pub expected: bool,
    pub retried: bool,
    pub count: u64,
    pub message: String,
    pub detail: String,
    pub hint: String,
    pub context: String,
    pub excerpt: String,
    pub advice: &'static str,
}

/// See [`ThreadTally`].
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ThreadRow {
    pub thread: usize,
    pub cpu_user_us: u64,
    pub cpu_system_us: u64,
    pub run_queue_delay_us: u64,
    pub passes: u64,
    pub loop_stall_us_max: u64,
    pub send_late: Vec<u8>,
}

/// Puts intervals together, one after the other.
#[derive(Debug)]
pub struct Reporter {
    /// By row: transactions open at the end of the last interval.
    backlog: Vec<i64>,
}

impl Reporter {
    /// For a load's intervals from the first on.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self {
            backlog: vec![0; plan.rows()],
        }
    }

    /// The next interval, and the tallies that it was made from, cleared.
    pub fn report(&mut self, plan: &Plan, finished: Finished) -> (Interval, Vec<Tally>) {
        let mut parts = finished.parts;
        parts.sort_by_key(|(thread, _)| *thread);
        let threads = parts
            .iter()
            .map(|(thread, tally)| thread_row(*thread, &tally.thread));
        let threads = threads.collect();
        let mut sum = Tally::new(plan);
        for (_, part) in &parts {
            sum.add(part);
        }
        for (row, counts) in &finished.arrivals {
            sum.scripts[*row].add_arrivals(counts);
        }
        for script in &mut sum.scripts {
            script.spans.complete();
        }
        for (backlog, script) in self.backlog.iter_mut().zip(&sum.scripts) {
            *backlog += script.open;
        }
        if let Some(waiting) = finished.waiting {
            // At the end every client was looked at, which is more than to have counted.
            self.backlog = waiting.iter().map(|count| count.cast_signed()).collect();
        }
        let interval = Interval {
            started_ns: finished.started_ns,
            ended_ns: finished.ended_ns,
            tag: finished.tag,
            scripts: script_rows(plan, &sum, &self.backlog),
            groups: group_rows(plan, &sum, &finished.clients),
            statements: statement_rows(plan, &sum),
            errors: error_rows(plan, &sum),
            reports: sum
                .reports
                .iter()
                .map(|(key, seen)| error_row(plan, key, 1, seen))
                .collect(),
            threads,
        };
        let mut tallies: Vec<Tally> = parts.into_iter().map(|(_, tally)| tally).collect();
        tallies.iter_mut().for_each(Tally::clear);
        (interval, tallies)
    }
}

fn script_rows(plan: &Plan, sum: &Tally, backlog: &[i64]) -> Vec<ScriptRow> {
    let mut rows = Vec::with_capacity(plan.rows());
    for group in &plan.groups {
        for script in &group.scripts {
            let tally = &sum.scripts[script.row];
            rows.push(ScriptRow {
                group: group.name.clone(),
                script: script.script.name.clone(),
                intended: tally.intended,
                sent: tally.sent,
                done: tally.done,
                failed: tally.failed,
                skipped: tally.skipped,
                cancelled: tally.cancelled,
                backlog: backlog[script.row],
                retried: tally.retried,
                expected_errors: tally.expected_errors,
                late: tally.late,
                response: tally.spans.response.encode(),
                wait: tally.spans.wait.encode(),
                client_lag: tally.spans.client_lag.encode(),
                pool_wait: tally.spans.pool_wait.encode(),
                connect: tally.spans.connect.encode(),
                service: tally.spans.service.encode(),
            });
        }
    }
    rows
}

fn group_rows(plan: &Plan, sum: &Tally, clients: &[u32]) -> Vec<GroupRow> {
    let numbered = plan.groups.iter().zip(&sum.groups).enumerate();
    numbered
        .map(|(number, (group, tally))| GroupRow {
            group: group.name.clone(),
            clients: clients.get(number).copied().unwrap_or(0),
            connections: tally.connections,
            connects: tally.connects,
            reconnects: tally.reconnects,
            connect_failures: tally.connect_failures,
            unanswered: tally.unanswered,
            unanswered_us_max: tally.unanswered_ns_max / 1000,
            tcp: tally.tcp.encode(),
            tls: tally.tls.encode(),
            auth: tally.auth.encode(),
            ready: tally.ready.encode(),
            total: tally.total.encode(),
            silence: tally.silence.encode(),
            http: group.http.is_some().then(|| http_row(&tally.http)),
        })
        .collect()
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
                    untouched: tally.untouched,
                    service: tally.service.encode(),
                    first_byte: group.http.is_some().then(|| tally.first_byte.encode()),
                });
            }
        }
    }
    rows
}

fn http_row(tally: &HttpTally) -> HttpRow {
    let [status_1xx, status_2xx, status_3xx, status_4xx, status_5xx] = tally.statuses;
    HttpRow {
        requests: tally.requests,
        reused: tally.reused,
        redirected: tally.redirected,
        status_1xx,
        status_2xx,
        status_3xx,
        status_4xx,
        status_5xx,
        closed_by_server: tally.closed_by_server,
        sent_bytes: tally.sent_bytes,
        received_bytes: tally.received_bytes,
    }
}

fn error_rows(plan: &Plan, sum: &Tally) -> Vec<ErrorRow> {
    let errors = sum.errors.iter();
    let mut rows: Vec<ErrorRow> = errors
        .map(|(key, errors)| error_row(plan, key, errors.count, &errors.first))
        .collect();
    rows.sort_by(|a, b| {
        b.count
            .cmp(&a.count)
            .then_with(|| a.sqlstate.cmp(&b.sqlstate))
    });
    rows
}

fn error_row(plan: &Plan, key: &ErrorKey, count: u64, seen: &Seen) -> ErrorRow {
    let group = &plan.groups[key.group];
    let (script, command) = match key.place {
        Place::Script(number, command) => (Some(&group.scripts[number].script), command),
        _ => (None, None),
    };
    let at = script.zip(command);
    let origin = at.and_then(|(script, command)| script.origins.get(command));
    let statement = match at.and_then(|(script, command)| script.commands.get(command)) {
        Some(command) => shortened(text_at_fault(command, origin, &key.code)),
        None if key.place == Place::Connect => "connect".to_owned(),
        None => String::new(),
    };
    let details = seen.failure.details.clone();
    ErrorRow {
        group: group.name.clone(),
        script: script.map_or(String::new(), |script| script.name.clone()),
        file: script.map_or(String::new(), |script| script.file.clone()),
        line: origin.map(|origin| origin.line + u32::try_from(details.lines_before).unwrap_or(0)),
        statement,
        client: seen.client,
        sqlstate: key.code.as_str().to_owned(),
        expected: key.expected,
        retried: key.retried,
        count,
        message: seen.failure.message.clone(),
        detail: details.detail,
        hint: details.hint,
        context: details.context,
        excerpt: details.excerpt,
        advice: details.advice,
    }
}

/// Text that an error refers to: the statement alone if the server refused it; with its `\gset` or
/// `\rows` if pgdyno did; or a meta-command.
fn text_at_fault<'a>(command: &'a Command, origin: Option<&'a Origin>, code: &Code) -> &'a str {
    let written = origin.map_or("", |origin| &origin.written);
    match (command, code) {
        (Command::Sql(statement), Code::Sqlstate(_)) => &statement.text,
        (Command::Sql(statement), Code::Own(_)) if written.is_empty() => &statement.text,
        _ => written,
    }
}

fn thread_row(thread: usize, tally: &ThreadTally) -> ThreadRow {
    ThreadRow {
        thread,
        cpu_user_us: tally.cpu.user_us,
        cpu_system_us: tally.cpu.system_us,
        run_queue_delay_us: tally.run_queue_delay_us,
        passes: tally.passes,
        loop_stall_us_max: tally.loop_stall_ns_max / 1000,
        send_late: tally.send_late.encode(),
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
