//! Entries of the ack ledger: how far a transaction has come on the server, and how it ended.
//!
//! Nothing of this happens in a load without an ack ledger; the log of transactions is written at
//! the same points.

use pgdyno_wire::TransactionStatus;

use super::Worker;
use crate::acks::{Column, Ending, Outcome};
use crate::client::Client;
use crate::error::LoadError;
use crate::failure::Code;
use crate::link::{Awaited, Doing, Link};
use crate::plan::Effect;
use crate::plan::Plan;
use crate::sys::monotonic_ns;

impl Worker {
    /// A statement of the client's, by its place in the script's commands, leaves.
    pub(super) fn note_sent(&mut self, slot: usize, command: usize, now_ns: u64) {
        if self.acks.is_none() {
            return;
        }
        let link = &mut self.links[slot];
        let commits = may_commit(&self.shared.plan, link, command);
        if let Some(client) = link.client.as_mut().filter(|_| commits) {
            client.progress.commit_sent_ns = now_ns;
        }
    }

    /// All statements of a pipeline that were put together leave.
    pub(super) fn note_piped(&mut self, slot: usize, now_ns: u64) {
        if self.acks.is_some()
            && let Some(client) = &mut self.links[slot].client
        {
            client.progress.commit_sent_ns = now_ns;
        }
    }

    /// A statement of a pipeline was executed; what it did is committed with the next Sync, or was
    /// undone.
    pub(super) fn note_piped_complete(&mut self, slot: usize) {
        if self.acks.is_none() {
            return;
        }
        let undoes = self.effect(slot).is_some_and(|effect| effect.undoes);
        if let Some(client) = &mut self.links[slot].client {
            client.progress.executed(undoes);
        }
    }

    /// The server is ready again: what was sent is acknowledged, unless the server reported an
    /// error.
    pub(super) fn note_ready(&mut self, slot: usize, status: TransactionStatus) {
        if self.acks.is_none() {
            return;
        }
        let effect = self.effect(slot);
        let link = &mut self.links[slot];
        let ended = status == TransactionStatus::Idle && link.status != TransactionStatus::Failed;
        let Some(client) = &mut link.client else {
            return;
        };
        if link.pipeline.is_busy() {
            let well = link.pipeline.failure.is_none();
            client.progress.synchronized(ended && well);
        } else if link.doing == Doing::Statement && link.statement.error.is_none() {
            let undoes = effect.is_some_and(|effect| effect.undoes);
            client.progress.acknowledged(ended && !undoes);
        }
    }

    /// The transaction of a connection's client ended.
    pub(super) fn note_end(
        &mut self,
        slot: usize,
        column: Column,
        code: Option<Code>,
        ended_ns: u64,
    ) {
        self.log_end(slot, column, code, ended_ns);
        if self.acks.is_none() {
            return;
        }
        let link = &self.links[slot];
        let Some(client) = &link.client else { return };
        let outcome = match column {
            _ if client.sent_ns == 0 && column != Column::Done => Outcome::Unsent,
            Column::Done => Outcome::Acked,
            _ if in_doubt(&self.shared.plan, link) => Outcome::Unknown,
            _ => Outcome::Failed,
        };
        let ending = Ending {
            outcome,
            column,
            code,
            ended_ns,
        };
        if let Some(acks) = &mut self.acks {
            acks.push(client, self.shared.plan.script_of(client).row, &ending);
        }
    }

    /// The transaction of a client without a connection ended before anything was sent.
    pub(super) fn note_unsent(&mut self, client: &Client, column: Column, code: Option<Code>) {
        self.log_unsent(client, column, code);
        if let Some(acks) = &mut self.acks {
            let ending = Ending {
                outcome: Outcome::Unsent,
                column,
                code,
                ended_ns: monotonic_ns(),
            };
            acks.push(client, self.shared.plan.script_of(client).row, &ending);
        }
    }

    /// Writes what waits, if it has waited long enough; `all`: at once.
    pub(super) fn write_acks(&mut self, now_ns: u64, all: bool) {
        let Some(acks) = &mut self.acks else { return };
        let written = if all {
            acks.write()
        } else {
            acks.write_if_due(now_ns)
        };
        if let Err(error) = written {
            self.give_up(error);
        }
    }

    /// The record is the point of such a load: without it, it ends.
    fn give_up(&mut self, error: LoadError) {
        self.acks = None;
        self.shared.fail(error, monotonic_ns());
    }

    pub(super) fn effect(&self, slot: usize) -> Option<Effect> {
        self.statement(slot)
            .map(|(script, statement)| script.effects[statement.position])
    }
}

/// True if a statement, sent now, may commit something.
fn may_commit(plan: &Plan, link: &Link, command: usize) -> bool {
    let client = link.client.as_deref();
    client
        .and_then(|client| plan.statement_of(client, command))
        .is_some_and(|(script, statement)| {
            let in_block = link.status != TransactionStatus::Idle;
            script.effects[statement.position].may_commit(in_block)
        })
}

/// True if something is under way on a connection that may be committed, or may not.
fn in_doubt(plan: &Plan, link: &Link) -> bool {
    if link.pipeline.is_busy() {
        // Where in a pipeline a block begins and ends is not looked for.
        let mut awaited = link.pipeline.awaited.iter();
        return awaited.any(|awaited| matches!(awaited, Awaited::Statement { .. }))
            || link.pipeline.failure.is_none();
    }
    link.doing == Doing::Statement && may_commit(plan, link, link.statement.command)
}
