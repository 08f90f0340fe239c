//! Settings that sessions are given while the load runs: each takes them up before its next
//! transaction, which waits for that.

use pgdyno_wire::TransactionStatus;

use super::Worker;
use crate::link::Doing;

impl Worker {
    /// True if a transaction is about to begin in a session without the settings that it must have.
    pub(super) fn is_to_adjust(&self, slot: usize) -> bool {
        let link = &self.links[slot];
        link.adjusted != self.shared.settings_number()
            && link.doing == Doing::Idle
            && link.status == TransactionStatus::Idle
            && link.session.is_some()
            && !link.pipeline.is_busy()
            && link
                .client
                .as_ref()
                .is_some_and(|client| client.sent_ns == 0)
    }

    /// Applies a session's settings, for the client whose transaction follows.
    pub(super) fn adjust(&mut self, slot: usize) {
        let (number, settings) = self.shared.session_settings();
        let link = &mut self.links[slot];
        link.doing = Doing::Adjusting;
        link.adjusted = number;
        if let Some(session) = &mut link.session {
            // Without zeros in it, which was checked, it can always be sent.
            let _ = session.query(settings.as_bytes(), &mut self.out);
        }
        self.send(slot);
    }

    /// The session has its settings, or the server refused them: then it cannot be used.
    pub(super) fn on_adjusted(&mut self, slot: usize, now_ns: u64) {
        let link = &mut self.links[slot];
        if let Some(failure) = link.failure.take() {
            return self.on_lost(slot, failure);
        }
        link.doing = Doing::Idle;
        if self.stop_at_ns.is_none() {
            self.run_script(slot, now_ns);
        }
    }
}
