//! Transactions: what is sent, what the answers mean, how a transaction ends.

use pgdyno_wire::{Columns, ParameterTypes, ProtocolError, Row, ServerMessage, TransactionStatus};

use super::Worker;
use crate::acks::Column;
use crate::client::Step;
use crate::config::Protocol;
use crate::failure::Code;
use crate::failure::Failure;
use crate::link::{Awaited, Doing};
use crate::plan::ScriptPlan;
use crate::script::{BinaryType, Rows, Statement};
use crate::sys::monotonic_ns;
use crate::tally::{ErrorKey, Place, ScriptTally};

/// Failures that are worth another try: serialization failure and deadlock.
const RETRIED: [Code; 2] = [Code::Sqlstate(*b"40001"), Code::Sqlstate(*b"40P01")];

impl Worker {
    /// Executes the client's script until it has to wait.
    pub(super) fn run_script(&mut self, slot: usize, now_ns: u64) {
        if self.is_to_adjust(slot) {
            return self.adjust(slot);
        }
        while self.step_script(slot, now_ns) {}
    }

    /// Executes the client's script up to the next statement or sleep; whether it can go on at once.
    fn step_script(&mut self, slot: usize, now_ns: u64) -> bool {
        let link = &mut self.links[slot];
        let Some(client) = &mut link.client else {
            return false;
        };
        match client.step(&self.shared.plan.groups[link.group]) {
            Step::Send(command) if link.dormant || link.http.is_some() => {
                self.send_request(slot, command);
            }
            Step::Send(command) => self.send_statement(slot, command),
            Step::Pipe(command) => return self.pipe_statement(slot, command),
            Step::SyncPipeline => {
                self.pipe_sync(slot);
                return true;
            }
            Step::EndPipeline => {
                self.pipe_sync(slot);
                self.await_pipeline(slot);
            }
            Step::Sleep(time_ns) => {
                link.doing = Doing::Sleeping;
                // A pause before the first statement is part of the service, as one after it is.
                self.count_sent(slot, now_ns);
                self.send_piped(slot);
                self.set_timer(slot, now_ns.saturating_add(time_ns));
            }
            Step::Finished if link.status == TransactionStatus::Idle => {
                self.end_well(slot, now_ns);
            }
            Step::Finished => {
                let message = "the script ended without ending its transaction";
                let mut failure = Failure::own("transaction-left-open", message);
                failure.command = link.opened_by;
                self.fail(slot, failure, now_ns);
            }
            Step::Failed(message) => {
                let mut failure = Failure::own("script-error", message);
                failure.command = client.last_command();
                self.fail(slot, failure, now_ns);
            }
        }
        false
    }

    fn send_statement(&mut self, slot: usize, command: usize) {
        if let Err(failure) = self.write_statement(slot, command) {
            self.out.clear();
            return self.fail(slot, failure.at(command), monotonic_ns());
        }
        let now_ns = monotonic_ns();
        let link = &mut self.links[slot];
        link.doing = Doing::Statement;
        link.statement.command = command;
        link.statement.sent_ns = now_ns;
        link.statement.untouched = false;
        self.count_sent(slot, now_ns);
        self.note_sent(slot, command, now_ns);
        self.send(slot);
    }

    /// Bytes of the client's transaction leave, or it pauses: counts the first of these.
    pub(super) fn count_sent(&mut self, slot: usize, now_ns: u64) {
        let link = &mut self.links[slot];
        if let Some(client) = &mut link.client
            && client.sent_ns == 0
        {
            client.sent_ns = now_ns;
            self.flying += 1;
            let due_ns = client.intended_ns.max(client.granted_ns);
            self.tally
                .thread
                .send_late
                .record(now_ns.saturating_sub(due_ns));
            let row = self.shared.plan.script_of(client).row;
            self.tally.scripts[row].sent += 1;
        }
    }

    pub(super) fn on_parsed(&mut self, slot: usize) {
        if self.shared.plan.protocol == Protocol::Prepared
            && let Some((script, statement)) = self.statement(slot)
        {
            let row = script.statement_row + statement.position;
            self.links[slot].prepared.insert(row);
        }
    }

    /// The types of a statement's parameters: all connections send binary values from now on.
    pub(super) fn on_parameter_types(&mut self, slot: usize, types: ParameterTypes<'_>) {
        if let Some((script, statement)) = self.statement(slot) {
            let count =
                statement.parameters.len() + statement.rows.as_ref().map_or(0, Rows::columns_count);
            let known = types.oids().take(count).map(BinaryType::of);
            // Another connection may have been first; it heard the same.
            let _ = script.types[statement.position].set(known.collect());
        }
    }

    /// The statement under way on a connection.
    pub(super) fn statement(&self, slot: usize) -> Option<(&ScriptPlan, &Statement)> {
        let client = self.links[slot].client.as_ref()?;
        let command = self.command(slot)?;
        self.shared.plan.statement_of(client, command)
    }

    /// Its place among the script's commands.
    pub(super) fn command(&self, slot: usize) -> Option<usize> {
        let link = &self.links[slot];
        match link.pipeline.awaited.front() {
            Some(Awaited::Statement { command, .. }) => Some(*command),
            None if link.doing == Doing::Statement => Some(link.statement.command),
            _ => None,
        }
    }

    pub(super) fn on_columns(
        &mut self,
        slot: usize,
        columns: Columns<'_>,
    ) -> Result<(), ProtocolError> {
        let link = &mut self.links[slot];
        let under_way = &mut link.statement;
        let Some(client) = link.client.as_ref().filter(|_| under_way.capture.is_on()) else {
            return Ok(());
        };
        let plan = &self.shared.plan;
        match plan.statement_of(client, under_way.command) {
            Some((
                _,
                Statement {
                    capture: Some(capture),
                    ..
                },
            )) => {
                let names = &plan.groups[client.group].names;
                under_way.capture.columns(&capture.prefix, names, columns)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn on_row(&mut self, slot: usize, row: Row<'_>) -> Result<(), ProtocolError> {
        let capturing = &mut self.links[slot].statement.capture;
        if capturing.is_on() {
            capturing.row(row)?;
        }
        Ok(())
    }

    pub(super) fn on_complete(
        &mut self,
        slot: usize,
        untouched: bool,
        rolled_back: bool,
        now_ns: u64,
    ) {
        if self.links[slot].pipeline.is_busy() {
            return self.on_piped_complete(slot, untouched, rolled_back, now_ns);
        }
        let unwanted = rolled_back && self.effect(slot).is_some_and(|effect| !effect.rolls_back);
        let link = &mut self.links[slot];
        if unwanted && link.doing == Doing::Statement {
            link.statement.error.get_or_insert_with(rolled_back_instead);
        }
        link.statement.untouched |= untouched;
        if link.statement.capture.is_on()
            && let Some(client) = &mut link.client
            && let Err(failure) = link.statement.capture.complete(&mut client.variables)
        {
            link.statement.error.get_or_insert(failure);
        }
    }

    pub(super) fn on_error(&mut self, slot: usize, error: &ServerMessage<'_>) {
        let failure = self.failure_of(slot, error);
        let link = &mut self.links[slot];
        match link.doing {
            _ if link.pipeline.is_busy() && !error.is_fatal() => self.on_piped_error(slot, failure),
            Doing::Statement if !error.is_fatal() => {
                link.statement.error.get_or_insert(failure);
            }
            // The connection ends, and that is when the failure counts. What ROLLBACK was sent for
            // came first.
            _ => {
                link.failure.get_or_insert(failure);
            }
        }
    }

    /// A server that shuts down at once, or that takes its sessions down because one has crashed,
    /// says why in a warning and closes the connection.
    pub(super) fn on_notice(&mut self, slot: usize, notice: &ServerMessage<'_>) {
        if matches!(notice.sqlstate, "57P01" | "57P02") {
            let failure = Failure::of_server(notice);
            self.links[slot].failure.get_or_insert(failure);
        }
    }

    /// A statement, or ROLLBACK, is over.
    pub(super) fn on_ready(&mut self, slot: usize, status: TransactionStatus, now_ns: u64) {
        self.note_ready(slot, status);
        self.note_block(slot, status);
        if self.links[slot].pipeline.is_busy() {
            return self.on_piped_ready(slot, now_ns);
        }
        match self.links[slot].doing {
            Doing::Statement => self.end_statement(slot, now_ns),
            Doing::RollingBack => {
                if let Some(failure) = self.links[slot].failure.take() {
                    self.end_badly(slot, failure, now_ns);
                }
            }
            Doing::Validating => self.on_validated(slot, now_ns),
            Doing::Adjusting => self.on_adjusted(slot, now_ns),
            _ => {}
        }
    }

    /// Keeps what opened a block, for a script that does not end it.
    fn note_block(&mut self, slot: usize, status: TransactionStatus) {
        let command = self.command(slot);
        let link = &mut self.links[slot];
        if status == TransactionStatus::Idle {
            link.opened_by = None;
        } else if link.status == TransactionStatus::Idle {
            // After a pipeline it was its BEGIN, which is known already.
            link.opened_by = command.or(link.opened_by);
        }
        link.status = status;
    }

    fn end_statement(&mut self, slot: usize, now_ns: u64) {
        let Some((script, statement)) = self.statement(slot) else {
            return;
        };
        let (position, expect) = (statement.position, statement.expect.map(Code::Sqlstate));
        let may_succeed = statement.may_succeed;
        let statement_row = script.statement_row + position;
        let row = script.row;
        let link = &mut self.links[slot];
        let command = link.statement.command;
        link.doing = Doing::Idle;
        link.statement.copying = false;
        let sent_ns = link.statement.sent_ns;
        let untouched = link.statement.untouched;
        let failure = match (link.statement.error.take(), expect) {
            (None, Some(code)) if !may_succeed => Some(missing(code)),
            (None, _) => link.capture_row(),
            (Some(error), Some(code)) if error.code == code => {
                self.tally.scripts[row].expected_errors += 1;
                self.count_error(slot, &error.at(command), true, false);
                None
            }
            (Some(error), _) => Some(error),
        };
        let tally = &mut self.tally.statements[statement_row];
        match failure {
            None => {
                tally.done += 1;
                tally.untouched += u64::from(untouched);
                tally.service.record(now_ns - sent_ns);
                self.run_script(slot, now_ns);
            }
            Some(mut failure) => {
                tally.failed += 1;
                let prepared = &mut self.links[slot].prepared;
                prepared.heed(&mut failure, Some(statement_row));
                self.fail(slot, failure.at(command), now_ns);
            }
        }
    }

    /// The transaction cannot go on: rolls back what is open of it, then ends it.
    pub(super) fn fail(&mut self, slot: usize, failure: Box<Failure>, now_ns: u64) {
        let link = &mut self.links[slot];
        if link.pipeline.is_busy() {
            return self.fail_pipeline(slot, failure);
        }
        let Some(session) = link
            .session
            .as_mut()
            .filter(|_| link.status != TransactionStatus::Idle)
        else {
            return self.end_badly(slot, failure, now_ns);
        };
        link.failure = Some(failure);
        link.doing = Doing::RollingBack;
        // A constant can always be sent.
        let _ = session.query(b"rollback", &mut self.out);
        self.send(slot);
    }

    /// The transaction failed: tries it again if that is worth it, else counts it. Without a limit
    /// of tries it is its latency limit, or the end of the load, that ends them.
    fn end_badly(&mut self, slot: usize, failure: Box<Failure>, now_ns: u64) {
        let link = &mut self.links[slot];
        link.doing = Doing::Idle;
        let Some(client) = &mut link.client else {
            return;
        };
        let tries_max = self.shared.plan.tries_max;
        let ends = tries_max == u32::MAX
            && (self.stop_at_ns.is_some()
                || now_ns.saturating_sub(client.intended_ns)
                    > self.shared.plan.groups[link.group].latency_limit_ns);
        let again = RETRIED.contains(&failure.code) && client.tries < tries_max && !ends;
        if again {
            client.restart();
        }
        self.count_error(slot, &failure, false, again);
        if again {
            self.script_tally(slot).retried += 1;
            self.run_script(slot, now_ns);
        } else {
            self.abort_if_asked(slot, &failure);
            self.script_tally(slot).failed += 1;
            self.note_end(slot, Column::Failed, Some(failure.code), now_ns);
            self.close_transaction(slot);
            self.next_transaction(slot, now_ns);
        }
    }

    /// End the load after a final failure, if the options require it.
    pub(super) fn abort_if_asked(&mut self, slot: usize, failure: &Failure) {
        let shared = &self.shared;
        let link = &self.links[slot];
        if !shared.plan.exit_on_abort || self.stop_at_ns.is_some() {
            return;
        }
        let who = match &link.client {
            Some(client) => shared.plan.client_in_words(client),
            None => format!(
                "a pooled connection of group {}",
                shared.plan.groups[link.group].name
            ),
        };
        shared.abort(&who, failure, monotonic_ns());
    }

    fn end_well(&mut self, slot: usize, now_ns: u64) {
        let Some(client) = &self.links[slot].client else {
            return;
        };
        let times = client.times(now_ns);
        let limit_ns = self.shared.plan.groups[self.links[slot].group].latency_limit_ns;
        self.script_tally(slot).end_well(&times, limit_ns);
        self.give_sample(slot);
        self.note_end(slot, Column::Done, None, now_ns);
        self.close_transaction(slot);
        self.next_transaction(slot, now_ns);
    }

    /// Hands over what is kept of a transaction that ended well.
    fn give_sample(&mut self, slot: usize) {
        if let Some(client) = &mut self.links[slot].client {
            let row = self.shared.plan.script_of(client).row;
            client.sampling.give(row, &self.shared.samples);
        }
    }

    /// The connection was lost under a transaction.
    pub(super) fn fail_lost(&mut self, slot: usize, failure: &Failure) {
        let position = self
            .statement(slot)
            .map(|(script, s)| (script.statement_row, s.position));
        let mut failure = failure.clone();
        if let Some((row, position)) = position {
            self.tally.statements[row + position].failed += 1;
            failure.command = self.command(slot);
        }
        self.count_error(slot, &failure, false, false);
        self.abort_if_asked(slot, &failure);
        self.script_tally(slot).failed += 1;
        self.note_end(slot, Column::Failed, Some(failure.code), monotonic_ns());
        self.close_transaction(slot);
    }

    /// The transaction of a connection's client is over, however it ended.
    pub(super) fn close_transaction(&mut self, slot: usize) {
        self.script_tally(slot).open -= 1;
        if let Some(client) = &mut self.links[slot].client {
            client.open = false;
            self.shared.groups[client.group].transaction_ended();
            if client.sent_ns != 0 {
                self.flying -= 1;
            }
        }
    }

    pub(super) fn count_error(
        &mut self,
        slot: usize,
        failure: &Failure,
        expected: bool,
        retried: bool,
    ) {
        let link = &self.links[slot];
        let (place, client) = match &link.client {
            Some(client) if client.open => (
                Place::Script(client.script, failure.command),
                Some(client.id),
            ),
            _ => (Place::Idle, None),
        };
        let key = ErrorKey {
            expected,
            retried,
            ..ErrorKey::new(link.group, place, failure.code)
        };
        self.tally.error(key, failure, client);
    }

    /// Counts of the script that a connection's client executes.
    pub(super) fn script_tally(&mut self, slot: usize) -> &mut ScriptTally {
        let link = &self.links[slot];
        let script = link.client.as_ref().map_or(0, |client| client.script);
        &mut self.tally.scripts[self.shared.plan.groups[link.group].scripts[script].row]
    }
}

fn rolled_back_instead() -> Box<Failure> {
    let message = "COMMIT was answered with ROLLBACK: the transaction had failed before";
    Failure::own("commit-rolled-back", message)
}

fn missing(code: Code) -> Box<Failure> {
    let message = format!(
        "the statement succeeded, and {} was expected",
        code.as_str()
    );
    Failure::own("expected-error-missing", message)
}
