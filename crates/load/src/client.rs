//! A simulated client: its variables, its randomness, and its position in its script.

use pgdyno_http::Jar;

use crate::plan::{GroupPlan, Plan, ScriptPlan};
use crate::sample::Sampling;
use crate::script::{
    Command, Datum, EvalError, Names, Rng, Rows, Statement, Value, Variables, eval, eval_truth,
};
use crate::times::Times;

/// Most rounds of `\for` that a client begins without a statement: a thread has other clients, too.
const IDLE_ROUNDS_MAX: u32 = 1_000_000;

/// Progress of a transaction on the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time of the last statement that could commit; 0 if none was sent.
    pub commit_sent_ns: u64,
    /// Statements acknowledged, in the last try.
    pub statements: u16,
    /// Times that something was committed for sure, in all tries.
    pub commits: u8,
    /// In a pipeline: statements were executed since the last Sync,
    piped: bool,
    /// and undone.
    undone: bool,
}

impl Progress {
    /// A statement was acknowledged; `commits` if that committed something.
    pub fn acknowledged(&mut self, commits: bool) {
        self.statements = self.statements.saturating_add(1);
        self.commits = self.commits.saturating_add(u8::from(commits));
    }

    /// A statement of a pipeline was executed.
    pub fn executed(&mut self, undoes: bool) {
        self.statements = self.statements.saturating_add(1);
        self.piped = true;
        self.undone |= undoes;
    }

    /// A Sync was answered; `commits` if that left no transaction open and nothing failed.
    pub fn synchronized(&mut self, commits: bool) {
        let commits = commits && self.piped && !self.undone;
        self.commits = self.commits.saturating_add(u8::from(commits));
        self.piped = false;
        self.undone = false;
    }

    /// The transaction is tried again.
    pub fn restart(&mut self) {
        *self = Self {
            commits: self.commits,
            ..Self::default()
        };
    }
}

/// A client, whether it executes, waits or thinks.
#[derive(Debug)]
pub struct Client {
    /// Number within its group, from 0.
    pub id: u32,
    /// Its group.
    pub group: usize,
    /// The script of the transaction, by number in the group.
    pub script: usize,
    /// True if a transaction is open: intended, and neither done nor failed.
    pub open: bool,
    /// Time at which it should have started.
    pub intended_ns: u64,
    /// Time at which the client began to wait for a pooled connection; 0 if it did not.
    pub queued_ns: u64,
    /// Time at which a connection was available.
    pub granted_ns: u64,
    /// Duration of connecting for the open transaction alone.
    pub connect_ns: u64,
    /// Time of its first byte, or of a pause before that; 0 before both.
    pub sent_ns: u64,
    /// Tries of the open transaction so far.
    pub tries: u32,
    /// Number of the transaction among the client's, from 0: `:txn`. A retry keeps it.
    pub txn: u64,
    /// Its progress on the server, if that is recorded.
    pub progress: Progress,
    /// Intended time of the next transaction, while the client thinks.
    pub think_until_ns: u64,
    /// Values of the group's variables.
    pub variables: Variables,
    /// Its cookies, if it sends requests.
    pub jar: Jar,
    /// The open transaction as it is sent, if it is kept.
    pub sampling: Sampling,
    command: usize,
    /// Between `\startpipeline` and `\endpipeline`.
    in_pipeline: bool,
    rng: Rng,
    choice: Rng,
    saved_rng: Rng,
    /// Transactions begun.
    begun: u64,
    begun_max: Option<u64>,
}

/// The next need of a client.
#[derive(Debug)]
pub enum Step {
    /// This statement, by its place in the script's commands, is to be sent, and its answer waited
    /// for.
    Send(usize),
    /// Send this statement within a pipeline, without waiting.
    Pipe(usize),
    /// `\syncpipeline`: send a Sync, without waiting.
    SyncPipeline,
    /// `\endpipeline`: send a Sync, and wait for all answers.
    EndPipeline,
    /// Nothing for this many nanoseconds.
    Sleep(u64),
    /// The script is over.
    Finished,
    /// An expression has no value.
    Failed(String),
}

impl Client {
    /// A client that has not begun anything.
    #[must_use]
    pub fn new(id: u32, group: usize, plan: &GroupPlan) -> Self {
        let (rng, choice) = plan.seeds.client(id);
        let mut variables = plan.variables.clone();
        let number = Value::Int(i64::from(id));
        variables.set(Names::WITNESS_CLIENT_ID, number);
        if !plan.has_client_id {
            variables.set(Names::CLIENT_ID, number);
        }
        Self {
            id,
            group,
            script: 0,
            open: false,
            intended_ns: 0,
            queued_ns: 0,
            granted_ns: 0,
            connect_ns: 0,
            sent_ns: 0,
            tries: 0,
            txn: 0,
            progress: Progress::default(),
            think_until_ns: 0,
            variables,
            jar: Jar::default(),
            sampling: Sampling::default(),
            command: 0,
            in_pipeline: false,
            choice,
            saved_rng: rng.clone(),
            rng,
            begun: 0,
            // Those of an open loop share what is due: its queue counts.
            begun_max: plan.transactions.filter(|_| plan.arrival.is_none()),
        }
    }

    /// Opens a transaction: chooses its script and remembers what a retry must start from.
    pub fn begin(&mut self, plan: &GroupPlan, intended_ns: u64) {
        let script = plan.mix.draw(&mut self.choice);
        self.open_script(script, intended_ns);
    }

    /// Opens a transaction of a script that was chosen before.
    pub fn open_script(&mut self, script: usize, intended_ns: u64) {
        self.script = script;
        self.open = true;
        self.intended_ns = intended_ns;
        self.queued_ns = 0;
        self.granted_ns = intended_ns;
        self.connect_ns = 0;
        self.sent_ns = 0;
        self.tries = 1;
        self.progress = Progress::default();
        self.sampling = Sampling::Undecided;
        self.command = 0;
        self.in_pipeline = false;
        self.txn = self.begun;
        self.begun += 1;
        self.saved_rng.clone_from(&self.rng);
        for slot in [Names::TXN, Names::WITNESS_TXN] {
            self.variables.set(slot, Value::Int(self.txn.cast_signed()));
        }
        self.variables.remember();
    }

    /// The client, which came and went before: its transactions go on being numbered.
    #[must_use]
    pub fn after(mut self, begun: u64) -> Self {
        self.begun = begun;
        self
    }

    /// Transactions begun.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// True if it has had all its transactions.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        !self.open && self.begun_max.is_some_and(|most| self.begun >= most)
    }

    /// Goes back to the transaction's start, with the variables and random numbers of then.
    pub fn restart(&mut self) {
        self.tries += 1;
        self.sampling = Sampling::Left;
        self.progress.restart();
        self.command = 0;
        self.in_pipeline = false;
        self.rng.clone_from(&self.saved_rng);
        self.variables.restore();
    }

    /// The moments of the open transaction, done now.
    #[must_use]
    pub fn times(&self, done_ns: u64) -> Times {
        Times {
            intended_ns: self.intended_ns,
            queued_ns: self.queued_ns,
            granted_ns: self.granted_ns,
            connect_ns: self.connect_ns,
            sent_ns: self.sent_ns,
            done_ns,
        }
    }

    /// Executes commands up to the next that has to wait.
    pub fn step(&mut self, plan: &GroupPlan) -> Step {
        let commands = &plan.scripts[self.script].script.commands;
        let mut rounds = 0;
        while let Some(command) = commands.get(self.command) {
            self.command += 1;
            if let Err(error) = self.evaluate(command) {
                return Step::Failed(error.to_string());
            }
            match command {
                Command::Sql(_) if self.in_pipeline => return Step::Pipe(self.command - 1),
                Command::Sql(_) => return Step::Send(self.command - 1),
                Command::Csv(table) => {
                    let clients = plan.schedule.clients_max();
                    table.set(self.id, clients, self.txn, &mut self.variables);
                }
                Command::Forget => self.jar.clear(),
                Command::Sleep(sleep) => match sleep.duration(&self.variables) {
                    Ok(time) => {
                        return Step::Sleep(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
                    }
                    Err(error) => return Step::Failed(error.to_string()),
                },
                Command::Round { .. } if rounds == IDLE_ROUNDS_MAX => {
                    return Step::Failed(format!("{rounds} rounds of \\for without a statement"));
                }
                Command::Round { .. } => rounds += 1,
                Command::StartPipeline if self.in_pipeline => {
                    return Step::Failed("\\startpipeline inside a pipeline".into());
                }
                Command::StartPipeline => self.in_pipeline = true,
                Command::SyncPipeline if self.in_pipeline => return Step::SyncPipeline,
                Command::EndPipeline if self.in_pipeline => {
                    self.in_pipeline = false;
                    return Step::EndPipeline;
                }
                Command::SyncPipeline | Command::EndPipeline => {
                    return Step::Failed("there is no pipeline to synchronize or end".into());
                }
                _ => {}
            }
        }
        if self.in_pipeline {
            return Step::Failed("the script ended inside a pipeline".into());
        }
        Step::Finished
    }

    /// Executes a command that sets variables, or goes elsewhere.
    fn evaluate(&mut self, command: &Command) -> Result<(), EvalError> {
        match command {
            Command::Set { slot, expr } => {
                let value = eval(expr, &self.variables, &mut self.rng)?;
                self.variables.set(*slot, value);
            }
            Command::Array(array) => array.set(&mut self.variables, &mut self.rng)?,
            Command::JumpUnless { condition, target }
                if !eval_truth(condition, &self.variables, &mut self.rng)? =>
            {
                self.command = *target;
            }
            Command::Start(rounds) => rounds.start(&mut self.variables)?,
            Command::Round { rounds, target } if !rounds.next(&mut self.variables)? => {
                self.command = *target;
            }
            Command::Jump { target } => self.command = *target,
            _ => {}
        }
        Ok(())
    }

    /// Keeps a statement that is sent now, if its transaction is kept.
    pub fn sample(&mut self, statement: &Statement, names: &Names) {
        self.sampling
            .add(statement, &self.variables, &self.rng, names);
    }

    /// Evaluates a row of `\rows`.
    ///
    /// # Errors
    /// A column has no value.
    pub fn evaluate_row(
        &mut self,
        rows: &Rows,
        number: u64,
        each: impl FnMut(usize, Datum<'_>),
    ) -> Result<(), EvalError> {
        rows.evaluate(number, &mut self.variables, &mut self.rng, each)
    }

    /// Appends a row of COPY's data.
    ///
    /// # Errors
    /// A column has no value.
    pub fn write_copy_row(
        &mut self,
        rows: &Rows,
        number: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), EvalError> {
        rows.write_copy(number, &mut self.variables, &mut self.rng, out)
    }

    /// Appends a statement with rows for the simple protocol.
    ///
    /// # Errors
    /// The rows cannot be made.
    pub fn write_simple_rows(
        &mut self,
        statement: &Statement,
        out: &mut Vec<u8>,
    ) -> Result<(), EvalError> {
        statement.write_simple_rows(&mut self.variables, &mut self.rng, out)
    }

    /// The command that was executed last, by its place.
    #[must_use]
    pub fn last_command(&self) -> Option<usize> {
        self.command.checked_sub(1)
    }

    /// True if the script is between `\startpipeline` and `\endpipeline`.
    #[must_use]
    pub fn is_in_pipeline(&self) -> bool {
        self.in_pipeline
    }
}

/// The clients of a plan.
impl Plan {
    /// Identity and script of a client.
    #[must_use]
    pub fn client_in_words(&self, client: &Client) -> String {
        let group = &self.groups[client.group];
        let of_group = if self.groups.len() > 1 {
            format!(" of group {}", group.name)
        } else {
            String::new()
        };
        let script = match group.scripts.get(client.script) {
            Some(script) if client.open => format!(", script {}", script.script.name),
            _ => String::new(),
        };
        format!("client {}{of_group}{script}", client.id)
    }

    /// The script that a client executes.
    #[must_use]
    pub fn script_of(&self, client: &Client) -> &ScriptPlan {
        &self.groups[client.group].scripts[client.script]
    }

    /// Statement that a client executes at an index of its script's commands, and the script; `None`
    /// if the command is no statement.
    #[must_use]
    pub fn statement_of(
        &self,
        client: &Client,
        command: usize,
    ) -> Option<(&ScriptPlan, &Statement)> {
        let script = self.script_of(client);
        match &script.script.commands[command] {
            Command::Sql(statement) => Some((script, statement)),
            _ => None,
        }
    }

    /// By row: how many of these clients have an open transaction.
    pub fn count_open<'a>(&self, clients: impl Iterator<Item = &'a Client>) -> Vec<u64> {
        let mut counts = vec![0; self.rows()];
        for client in clients.filter(|client| client.open) {
            counts[self.script_of(client).row] += 1;
        }
        counts
    }
}
