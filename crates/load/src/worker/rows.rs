//! Statements with rows made up by `\rows`: VALUES of many rows, and the data of COPY FROM STDIN.
//!
//! COPY's data is made piece by piece, as fast as the socket takes it, and in turn with the other
//! connections of the thread.

use pgdyno_wire::{Format, ProtocolError};

use super::{Worker, bound};
use crate::config::Protocol;
use crate::link::Failure;
use crate::script::{Command, Statement};

/// COPY data that is made before others get their turn, in bytes.
const PIECE_BYTES: usize = 32 << 10;

/// What cannot be sent.
fn unsendable(error: ProtocolError) -> Box<Failure> {
    Failure::own("statement-unsendable", error.to_string())
}

impl Worker {
    /// Puts a statement with rows into the output buffer.
    pub(super) fn write_rows(&mut self, slot: usize, command: usize) -> Result<(), Box<Failure>> {
        let link = &mut self.links[slot];
        let (Some(session), Some(client)) = (&mut link.session, &mut link.client) else {
            return Ok(());
        };
        let script = &self.shared.plan.groups[link.group].scripts[client.script];
        let Command::Sql(statement) = &script.script.commands[command] else {
            return Ok(());
        };
        let Some(rows) = &statement.rows else {
            return Ok(());
        };
        let failed =
            |error: crate::script::EvalError| Failure::own("script-error", error.to_string());
        let count = rows.count(statement, &client.variables).map_err(failed)?;
        let (out, text) = (&mut self.out, &mut self.text);
        if self.shared.plan.protocol == Protocol::Simple || statement.simple_only {
            link.statement.rows = (0, count);
            text.clear();
            client.write_simple_rows(statement, text).map_err(failed)?;
            return session.query(text, out).map_err(unsendable);
        }
        let types = script.types[statement.position].get();
        let types = types.map_or(&[][..], |types| types);
        let own = statement.parameters.len();
        self.bound.fill(&statement.parameters, types, client);
        self.bound
            .add_rows(rows, count, types.get(own..).unwrap_or_default(), client)
            .map_err(failed)?;
        let row = script.statement_row + statement.position;
        let named = self.shared.plan.protocol == Protocol::Prepared && rows.is_count_fixed();
        let name = if named {
            script.statement_names[statement.position].as_str()
        } else {
            ""
        };
        if !named || !link.prepared.has(row) {
            if named && link.prepared.doubtful {
                session.close_statement(name, out).map_err(unsendable)?;
            }
            let sql = statement.parameterized_rows(rows, count);
            session.parse(name, &sql, &[], out).map_err(unsendable)?;
            if self.shared.plan.wants_types(script, statement) {
                session.describe_statement(name, out).map_err(unsendable)?;
            }
        }
        let piped = client.is_in_pipeline();
        session
            .bind(
                name,
                self.bound.formats(),
                self.bound.values(),
                bound::write,
                out,
            )
            .and_then(|()| session.execute(out))
            .map_err(unsendable)?;
        if !piped {
            session.sync(out);
        }
        Ok(())
    }

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
            // The server found fault with what it got.
            link.statement.copying = false;
            return;
        }
        let script = &self.shared.plan.groups[link.group].scripts[client.script];
        let Command::Sql(Statement {
            rows: Some(rows), ..
        }) = &script.script.commands[link.statement.command]
        else {
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
