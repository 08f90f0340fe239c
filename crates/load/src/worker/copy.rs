//! The data of COPY FROM STDIN, with rows made up by `\rows`: piece by piece, as fast as the socket
//! takes it, and in turn with the other connections of the thread.

use pgdyno_wire::{Format, ProtocolError};

use super::Worker;
use crate::failure::Failure;
use crate::script::Statement;

/// COPY data that is made before others get their turn, in bytes.
const PIECE_BYTES: usize = 32 << 10;

impl Worker {
    /// The server waits for the data of a COPY FROM STDIN.
    pub(super) fn on_copy_in(&mut self, slot: usize, format: Format) -> Result<(), ProtocolError> {
        let refused = match self.statement(slot) {
            Some((_, Statement { rows: Some(_), .. })) if format == Format::Text => None,
            Some((_, Statement { rows: Some(_), .. })) => Some("\\rows writes COPY's text format"),
            _ => Some("pgdyno has no data for COPY FROM STDIN"),
        };
        let link = &mut self.links[slot];
        let Some(reason) = refused else {
            link.statement.copying = true;
            self.copy_on(slot);
            return Ok(());
        };
        if let Some(session) = &mut link.session {
            session.copy_fail(reason, &mut self.out)?;
            self.send(slot);
        }
        Ok(())
    }

    /// The socket takes more.
    pub(super) fn on_drained(&mut self, slot: usize) {
        if let Some(link) = self.links.get(slot).filter(|link| link.statement.copying) {
            self.ready.push_back((slot, link.id));
        }
    }

    /// Sends the next piece of COPY's data, and the end after the last.
    pub(super) fn copy_on(&mut self, slot: usize) {
        let link = &mut self.links[slot];
        let (Some(session), Some(client)) = (&mut link.session, &mut link.client) else {
            return;
        };
        if !session.is_copying() {
            // The server rejected the data.
            link.statement.copying = false;
            return;
        }
        let under_way = self
            .shared
            .plan
            .statement_of(client, link.statement.command);
        let Some(rows) = under_way.and_then(|(_, statement)| statement.rows.as_ref()) else {
            return;
        };
        self.text.clear();
        let (next, count) = &mut link.statement.rows;
        let mut failed = None;
        while *next < *count && self.text.len() < PIECE_BYTES && failed.is_none() {
            failed = client.write_copy_row(rows, *next, &mut self.text).err();
            *next += 1;
        }
        let over = *next == *count;
        let sent = match failed {
            None => session.copy_data(&self.text, &mut self.out),
            Some(error) => {
                let failure = Failure::own("script-error", error.to_string());
                link.statement.error.get_or_insert(failure);
                session.copy_fail("the script could not make a row", &mut self.out)
            }
        };
        if over {
            session.copy_done(&mut self.out);
        }
        link.statement.copying = session.is_copying() && sent.is_ok();
        let id = link.id;
        self.send(slot);
        if self.links[slot].statement.copying && self.reactor.unsent_bytes(slot) == 0 {
            self.ready.push_back((slot, id));
        }
    }
}
