//! Statements, as they are put into the output buffer: as text, with parameters, with made-up rows.

use bytes::BytesMut;
use pgdyno_wire::{ProtocolError, Session};

use super::{Worker, bound};
use crate::client::Client;
use crate::config::{Parameters, Protocol};
use crate::failure::Failure;
use crate::link::{InFlight, Pipeline, Prepared};
use crate::plan::{Plan, ScriptPlan};
use crate::sample::{SampledTransaction, Sampling};
use crate::script::{BinaryType, EvalError, Rows, Slot, Statement};

impl Worker {
    /// Puts a statement's messages into the output buffer.
    pub(super) fn write_statement(
        &mut self,
        slot: usize,
        command: usize,
    ) -> Result<(), Box<Failure>> {
        let plan = &self.shared.plan;
        let link = &mut self.links[slot];
        let (Some(session), Some(client)) = (&mut link.session, &mut link.client) else {
            return Ok(());
        };
        let Some((script, statement)) = plan.statement_of(client, command) else {
            return Ok(());
        };
        link.statement.capture.restart(statement.capture.as_ref());
        let is_text = plan.protocol == Protocol::Simple || statement.simple_only;
        if matches!(client.sampling, Sampling::Undecided) {
            client.sampling = begun(plan, client, self.sampler.is_due(script.row));
        }
        let names = &plan.groups[client.group].names;
        client.sample(statement, names);
        let writing = Writing {
            plan,
            script,
            statement,
            client,
            session,
            command,
            prepared: &link.prepared,
            pipeline: &link.pipeline,
            under_way: &mut link.statement,
            is_text,
            bound: &mut self.bound,
            text: &mut self.text,
            out: &mut self.out,
        };
        match &statement.rows {
            Some(rows) => writing.with_rows(rows),
            None => writing.with_parameters().map_err(unsendable),
        }
    }
}

/// The beginning of a client's transaction, which `is_kept` or not.
fn begun(plan: &Plan, client: &Client, is_kept: bool) -> Sampling {
    if !is_kept {
        return Sampling::Left;
    }
    Sampling::Kept(Box::new(SampledTransaction {
        group: plan.groups[client.group].name.clone(),
        script: plan.script_of(client).script.name.clone(),
        statements: Vec::new(),
    }))
}

/// The error of a statement that cannot be sent.
fn unsendable(error: ProtocolError) -> Box<Failure> {
    Failure::own("statement-unsendable", error.to_string())
}

/// The error of rows that cannot be generated.
fn unmade(error: EvalError) -> Box<Failure> {
    Failure::own("script-error", error.to_string())
}

/// A statement being written, for the client and over the connection of one link.
struct Writing<'a> {
    plan: &'a Plan,
    script: &'a ScriptPlan,
    statement: &'a Statement,
    client: &'a mut Client,
    session: &'a mut Session,
    /// Its place among the script's commands.
    command: usize,
    prepared: &'a Prepared,
    pipeline: &'a Pipeline,
    under_way: &'a mut InFlight,
    /// Its values are in its text.
    is_text: bool,
    bound: &'a mut bound::Bound,
    text: &'a mut Vec<u8>,
    out: &'a mut BytesMut,
}

impl<'a> Writing<'a> {
    fn with_parameters(mut self) -> Result<(), ProtocolError> {
        if self.is_text {
            return self.without_parameters();
        }
        let named = self.plan.protocol == Protocol::Prepared;
        let name = self.prepare(named, || self.statement.parameterized.as_str())?;
        self.bind(name)?;
        if self.statement.capture.is_some() {
            self.session.describe(self.out)?;
        }
        self.execute()
    }

    fn with_rows(mut self, rows: &Rows) -> Result<(), Box<Failure>> {
        let (statement, client) = (self.statement, &mut *self.client);
        let count = rows.count(statement, &client.variables).map_err(unmade)?;
        if self.is_text {
            self.under_way.rows = (0, count);
            self.text.clear();
            let client = &mut self.client;
            client
                .write_simple_rows(statement, self.text)
                .map_err(unmade)?;
            return self.session.query(self.text, self.out).map_err(unsendable);
        }
        let types = self.types();
        let of_row = types.get(statement.parameters.len()..).unwrap_or_default();
        self.bound.fill(&statement.parameters, types, self.client);
        self.bound
            .add_rows(rows, count, of_row, self.client)
            .map_err(unmade)?;
        let named = self.plan.protocol == Protocol::Prepared && rows.is_count_fixed();
        self.prepare(named, || statement.parameterized_rows(rows, count))
            .and_then(|name| self.bind_filled(name))
            .and_then(|()| self.execute())
            .map_err(unsendable)
    }

    /// As text; in a pipeline, which knows no simple queries, as a statement that has none.
    fn without_parameters(self) -> Result<(), ProtocolError> {
        let (session, text, out) = (self.session, self.text, self.out);
        text.clear();
        self.statement.write_simple(&self.client.variables, text);
        if !self.client.is_in_pipeline() {
            return session.query(text, out);
        }
        let sql = std::str::from_utf8(text)
            .map_err(|_| ProtocolError::Unsendable("text that is not UTF-8".into()))?;
        session.parse("", sql, &[], out)?;
        session.bind("", &[], std::iter::empty::<()>(), |(), _| false, out)?;
        session.execute(out)
    }

    /// Has the server parse the statement, unless it knows it by name; the name, empty for none.
    fn prepare<S: AsRef<str>>(
        &mut self,
        named: bool,
        sql: impl FnOnce() -> S,
    ) -> Result<&'a str, ProtocolError> {
        let (script, position) = (self.script, self.statement.position);
        let mut name = "";
        if named {
            name = &script.statement_names[position];
            let is_prepared = self.prepared.has(script.statement_row + position);
            // An earlier round of a pipeline has it parsed before this one.
            if is_prepared || self.pipeline.awaits(self.command) {
                return Ok(name);
            }
            if self.prepared.doubtful {
                self.session.close_statement(name, self.out)?;
            }
        }
        self.session.parse(name, sql().as_ref(), &[], self.out)?;
        if self.plan.wants_types(script, self.statement) {
            self.session.describe_statement(name, self.out)?;
        }
        Ok(name)
    }

    /// Types of the statement's parameters, as far as a connection has heard of them.
    fn types(&self) -> &'a [Option<BinaryType>] {
        let types = self.script.types[self.statement.position].get();
        types.map_or(&[], |types| types)
    }

    fn bind(&mut self, name: &str) -> Result<(), ProtocolError> {
        let (parameters, types) = (&self.statement.parameters, self.types());
        if self.plan.parameters == Parameters::Binary {
            self.bound.fill(parameters, types, self.client);
            return self.bind_filled(name);
        }
        let (text, variables) = (&mut *self.text, &self.client.variables);
        let write = |slot: &Slot, out: &mut BytesMut| {
            text.clear();
            let written = variables.write_parameter(*slot, text);
            out.extend_from_slice(text);
            written
        };
        self.session.bind(name, &[], parameters, write, self.out)
    }

    /// With the values that were put together.
    fn bind_filled(&mut self, name: &str) -> Result<(), ProtocolError> {
        let (formats, values) = (self.bound.formats(), self.bound.values());
        self.session
            .bind(name, formats, values, bound::write, self.out)
    }

    fn execute(&mut self) -> Result<(), ProtocolError> {
        self.session.execute(self.out)?;
        if !self.client.is_in_pipeline() {
            self.session.sync(self.out);
        }
        Ok(())
    }
}
