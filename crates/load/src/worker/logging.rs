//! Entries of the log of transactions. Nothing is done in a load without one.

use super::Worker;
use crate::acks::Column;
use crate::client::Client;
use crate::failure::Code;
use crate::plan::Plan;
use crate::sys::lock;
use crate::sys::monotonic_ns;
use crate::translog::Entry;

impl Worker {
    /// The transaction of a connection's client ended.
    pub(super) fn log_end(
        &mut self,
        slot: usize,
        column: Column,
        code: Option<Code>,
        ended_ns: u64,
    ) {
        let Some(log) = self.log.as_mut().filter(|_| column != Column::Cancelled) else {
            return;
        };
        if let Some(client) = &self.links[slot].client {
            log.push(&entry(&self.shared.plan, client, column, code, ended_ns));
        }
    }

    /// The transaction of a client without a connection ended before anything was sent.
    pub(super) fn log_unsent(&mut self, client: &Client, column: Column, code: Option<Code>) {
        if let Some(log) = &mut self.log {
            log.push(&entry(
                &self.shared.plan,
                client,
                column,
                code,
                monotonic_ns(),
            ));
        }
    }

    /// Transactions that open loops skipped before a client took them.
    pub(super) fn log_skips(&mut self) {
        let Some(log) = &mut self.log else { return };
        for (state, group) in self.shared.groups.iter().zip(&self.shared.plan.groups) {
            let skips = state
                .arrivals
                .as_ref()
                .map(|queue| lock(queue).take_skips());
            for skip in skips.into_iter().flatten() {
                log.push(&Entry {
                    client: None,
                    number: skip.number,
                    script: group.scripts[skip.script].row,
                    column: Column::Skipped,
                    code: None,
                    latency_ns: 0,
                    lag_ns: 0,
                    retries: 0,
                    ended_ns: skip.at_ns,
                });
            }
        }
    }

    /// Writes what waits, if it has waited long enough; `all`: at once, for this is the end.
    pub(super) fn write_log(&mut self, now_ns: u64, all: bool) {
        let Some(log) = &mut self.log else { return };
        let written = if all {
            log.finish(now_ns)
        } else {
            log.write_if_due(now_ns)
        };
        if let Err(error) = written {
            self.log = None;
            self.shared.fail(error, now_ns);
        }
    }
}

fn entry(plan: &Plan, client: &Client, column: Column, code: Option<Code>, ended_ns: u64) -> Entry {
    let spans = client.times(ended_ns).spans();
    Entry {
        client: Some(plan.first_client(client.group) + client.id),
        number: client.txn + 1,
        script: plan.script_of(client).row,
        column,
        code,
        latency_ns: spans.response_ns,
        lag_ns: spans.wait_ns,
        retries: client.tries.saturating_sub(1),
        ended_ns,
    }
}
