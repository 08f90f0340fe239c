//! Pipelines: statements that are sent without waiting for the answers to those before them.
//!
//! All that a script sends between two waits is sent in one write. Answers come in the order of the
//! statements; after an error the server skips everything up to the next Sync. A transaction that
//! fails takes in all answers first, so that the connection can be used again. If ROLLBACK TO
//! SAVEPOINT and COMMIT were behind that Sync, the transaction is committed, and has not failed.

use pgdyno_wire::TransactionStatus;

use super::Worker;
use crate::failure::Failure;
use crate::link::{After, Awaited, Doing};
use crate::sys::monotonic_ns;

/// Bytes of a pipeline that are put together before they are sent.
const PIPED_BYTES_MAX: usize = 64 << 10;

impl Worker {
    /// Puts a statement behind those that were not sent yet; whether the script can go on.
    pub(super) fn pipe_statement(&mut self, slot: usize, command: usize) -> bool {
        let length = self.out.len();
        let written = match self.unpipable(slot, command) {
            Some(why) => Err(Failure::own("script-error", why)),
            None => self.write_statement(slot, command),
        };
        if let Err(failure) = written {
            self.out.truncate(length);
            self.send_piped(slot);
            self.fail(slot, failure.at(command), monotonic_ns());
            return false;
        }
        let sent_ns = 0;
        let awaited = Awaited::Statement { command, sent_ns };
        self.links[slot].pipeline.awaited.push_back(awaited);
        if self.out.len() >= PIPED_BYTES_MAX {
            self.send_piped(slot);
        }
        true
    }

    /// Reason why a statement cannot be in a pipeline. If the script alone decides that it is in
    /// one, the parser has reported it.
    fn unpipable(&self, slot: usize, command: usize) -> Option<String> {
        let client = self.links[slot].client.as_ref()?;
        let (_, statement) = self.shared.plan.statement_of(client, command)?;
        statement.unpipable()
    }

    /// Puts a Sync behind the statements.
    pub(super) fn pipe_sync(&mut self, slot: usize) {
        let link = &mut self.links[slot];
        if let Some(session) = &mut link.session {
            session.sync(&mut self.out);
            link.pipeline.awaited.push_back(Awaited::Sync);
        }
    }

    /// Sends what was put together.
    pub(super) fn send_piped(&mut self, slot: usize) {
        if self.out.is_empty() {
            return;
        }
        let now_ns = monotonic_ns();
        self.links[slot].pipeline.mark_sent(now_ns);
        self.count_sent(slot, now_ns);
        self.note_piped(slot, now_ns);
        self.send(slot);
    }

    /// The script waits for everything that was sent.
    pub(super) fn await_pipeline(&mut self, slot: usize) {
        self.links[slot].doing = Doing::Statement;
        self.send_piped(slot);
    }

    /// A statement of a pipeline ended well.
    pub(super) fn on_piped_complete(
        &mut self,
        slot: usize,
        untouched: bool,
        rolled_back: bool,
        now_ns: u64,
    ) {
        let Some((script, statement)) = self.statement(slot) else {
            return;
        };
        let row = script.statement_row + statement.position;
        let effect = script.effects[statement.position];
        let opens = effect.opens;
        self.note_piped_complete(slot);
        let link = &mut self.links[slot];
        let in_block = link.status != TransactionStatus::Idle;
        if link.pipeline.failure.is_some() && in_block && link.pipeline.after == After::Open {
            if rolled_back && (effect.undoes || effect.commits) {
                link.pipeline.after = After::Lost;
            } else if effect.commits {
                link.pipeline.after = After::Committed;
            }
        }
        if let Some(Awaited::Statement { command, sent_ns }) = link.pipeline.awaited.pop_front() {
            if opens {
                link.opened_by = Some(command);
            }
            let tally = &mut self.tally.statements[row];
            tally.done += 1;
            tally.untouched += u64::from(untouched);
            tally.service.record(now_ns.saturating_sub(sent_ns));
        }
    }

    /// A statement of a pipeline failed, or the Sync after it, which ends an implicit transaction:
    /// the transaction fails, and its script goes no further.
    pub(super) fn on_piped_error(&mut self, slot: usize, mut failure: Box<Failure>) {
        let place = self.statement(slot);
        let mut statement_row = None;
        if let Some((row, position)) = place.map(|(script, s)| (script.statement_row, s.position)) {
            self.tally.statements[row + position].failed += 1;
            statement_row = Some(row + position);
            failure.command = self.command(slot);
        }
        let link = &mut self.links[slot];
        link.prepared.heed(&mut failure, statement_row);
        link.pipeline.skip_to_sync();
        self.fail_pipeline(slot, failure);
    }

    /// The answer to a Sync.
    pub(super) fn on_piped_ready(&mut self, slot: usize, now_ns: u64) {
        let link = &mut self.links[slot];
        // A server that answered less than it was sent is not waited for any longer.
        link.pipeline.skip_to_sync();
        link.pipeline.awaited.pop_front();
        if link.pipeline.is_busy() || link.doing != Doing::Statement {
            return;
        }
        link.doing = Doing::Idle;
        let after = std::mem::take(&mut link.pipeline.after);
        match link.pipeline.failure.take() {
            Some(failure) if after == After::Committed => {
                self.script_tally(slot).expected_errors += 1;
                self.count_error(slot, &failure, true, false);
                self.run_script(slot, now_ns);
            }
            Some(failure) => self.fail(slot, failure, now_ns),
            None => self.run_script(slot, now_ns),
        }
    }

    /// The transaction fails within a pipeline: everything that was sent is answered first. If the
    /// script has not synchronized it yet (it sleeps, or an expression had no value), that is done.
    pub(super) fn fail_pipeline(&mut self, slot: usize, failure: Box<Failure>) {
        let link = &mut self.links[slot];
        link.pipeline.failure.get_or_insert(failure);
        link.timer = link.timer.wrapping_add(1);
        if link.pipeline.awaited.back() != Some(&Awaited::Sync) {
            self.pipe_sync(slot);
        }
        self.await_pipeline(slot);
    }
}
