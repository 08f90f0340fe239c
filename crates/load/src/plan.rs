//! The plan of a load: the configuration as given (JSON), checked and resolved into a [`Plan`].

mod block;
mod effect;
mod hold;
mod http;
mod witness;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use crate::arrival::{Arrivals, Policy, Queue};
use crate::config::{
    AcksConfig, ArrivalConfig, Config, GroupConfig, LogConfig, Parameters, PoolConfig, Protocol,
    TargetConfig, default_pool_wait,
};
use crate::error::LoadError;
use crate::mix::Mix;
use crate::reactor::Wanted;
use crate::schedule::Schedule;
use crate::script::{
    self, BinaryType, Command, Names, Rng, Rows, Script, ScriptError, Source, Statement, Value,
    Variables,
};
use crate::seeds::Seeds;

pub use effect::Effect;
pub use http::HttpPlan;

/// The latency limit of a group that has none.
pub const NO_LIMIT_NS: u64 = u64::MAX;

/// The error in a configuration.
#[derive(Debug, Clone)]
pub enum PlanError {
    /// Something other than a script.
    Load(LoadError),
    /// A script.
    Script(ScriptError),
}

impl From<LoadError> for PlanError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<ScriptError> for PlanError {
    fn from(error: ScriptError) -> Self {
        Self::Script(error)
    }
}

/// A checked load, ready to start.
#[derive(Debug)]
pub struct Plan {
    /// The database server, if a group uses one.
    pub target: Option<TargetConfig>,
    /// Event loops.
    pub threads: usize,
    /// Start of all randomness.
    pub seed: u64,
    /// The way statements are sent.
    pub protocol: Protocol,
    /// Format of their parameters.
    pub parameters: Parameters,
    /// Tries of a transaction that fails with 40001 or 40P01, the first included; the largest number
    /// is no limit.
    pub tries_max: u32,
    /// Time for a connection to be established.
    pub connect_timeout_ns: u64,
    /// Connections that may be on their way at once; `None` is no limit.
    pub connecting_max: Option<u32>,
    /// First pause before connecting again.
    pub backoff_ns_min: u64,
    /// Longest pause.
    pub backoff_ns_max: u64,
    /// With no connection left for this long, the load gives up.
    pub give_up_after_ns: u64,
    /// The way sockets are watched.
    pub reactor: Wanted,
    /// CPUs that the threads are bound to, in turn.
    pub cpus: Option<Vec<usize>>,
    /// The threads' nice level, if not that of the process.
    pub nice: Option<i32>,
    /// Directory of the ack ledger, if there is one.
    pub acks: Option<AcksConfig>,
    /// The first transaction that fails for good, or connection that is lost, ends the load.
    pub exit_on_abort: bool,
    /// SQL that every session executes before its first transaction.
    pub session: Option<String>,
    /// pgbench's log of transactions, if it is written.
    pub log: Option<LogConfig>,
    /// True if each error is handed out, and not only the first of its kind.
    pub verbose_errors: bool,
    /// Client groups.
    pub groups: Vec<GroupPlan>,
    rows: usize,
    statements: usize,
}

/// A client group.
#[derive(Debug)]
pub struct GroupPlan {
    /// Its name.
    pub name: String,
    /// Clients over time.
    pub schedule: Schedule,
    /// The web server that it sends requests to; `None` if it uses the database server.
    pub http: Option<HttpPlan>,
    /// Its arrival process; `None` for a closed loop.
    pub arrival: Option<ArrivalConfig>,
    /// Transactions that take longer are late.
    pub latency_limit_ns: u64,
    /// State shared by its clients.
    pub pool: PoolPlan,
    /// Its sessions' `application_name`, if not that of the target.
    pub application_name: Option<String>,
    /// Instances of the application, each with a pool of its own.
    pub instances: usize,
    /// After so many transactions a connection is closed, and another made for the next.
    pub reconnect_every: u64,
    /// After a failure connections come back one, two, four … at a time.
    pub slow_start: bool,
    /// Its clients connect, and never send.
    pub idle: bool,
    /// Pause of a client between two transactions.
    pub think_ns: u64,
    /// After so many transactions a client ends.
    pub transactions: Option<u64>,
    /// Seeds of its clients.
    pub seeds: Seeds,
    /// Its scripts.
    pub scripts: Vec<ScriptPlan>,
    /// Which of them a transaction executes.
    pub mix: Mix,
    /// Names of its scripts' variables.
    pub names: Arc<Names>,
    /// Initial values of a client's variables, except its number.
    pub variables: Variables,
    /// True if they define `:client_id`, which is then not its number.
    pub has_client_id: bool,
}

/// The connections that the clients of an instance share.
#[derive(Debug, Clone)]
pub struct PoolPlan {
    /// At most so many; `None` when each client has its own.
    pub max: Option<u32>,
    /// So many are to be idle, as far as the limit allows.
    pub idle_min: u32,
    /// Longest wait of a client for one.
    pub wait_ns_max: u64,
    /// Longest lifetime of a connection.
    pub lifetime_ns: Option<u64>,
    /// Idle time after which one is closed.
    pub idle_ns_max: Option<u64>,
    /// Query that validates a connection, and the idle time after which it is used.
    pub validation: Option<(String, u64)>,
}

impl PoolPlan {
    fn new(config: Option<&PoolConfig>) -> Self {
        let ns = |ms: u64| ms * 1_000_000;
        let validation = config.and_then(|pool| pool.validation.as_ref());
        Self {
            max: config.map(|pool| pool.max),
            idle_min: config.map_or(0, |pool| pool.min_idle),
            wait_ns_max: ns(config.map_or(default_pool_wait(), |pool| pool.max_wait_ms)),
            lifetime_ns: config.and_then(|pool| pool.max_lifetime_ms).map(ns),
            idle_ns_max: config.and_then(|pool| pool.idle_timeout_ms).map(ns),
            validation: validation.map(|v| (v.query.clone(), ns(v.after_idle_ms))),
        }
    }

    /// Interval of checks for connections that are too old, if they have a maximum age.
    #[must_use]
    pub fn sweep_ns(&self) -> Option<u64> {
        let shortest = self.lifetime_ns.into_iter().chain(self.idle_ns_max).min()?;
        Some((shortest / 20).clamp(10_000_000, 1_000_000_000))
    }
}

/// A script of a group's mix.
#[derive(Debug)]
pub struct ScriptPlan {
    /// Parsed.
    pub script: Script,
    /// Its row in a tally.
    pub row: usize,
    /// Row of its first statement in a tally.
    pub statement_row: usize,
    /// Effects of its statements on a transaction, by position.
    pub effects: Vec<Effect>,
    /// Names of its prepared statements on the server, by position.
    pub statement_names: Vec<String>,
    /// Types of its statements' parameters, by position, once a connection has heard of them; with
    /// made-up rows, those of the first row. `None` for a type that goes as text.
    pub types: Vec<OnceLock<Box<[Option<BinaryType>]>>>,
}

impl Plan {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn from_json(json: &str) -> Result<Self, PlanError> {
        let config = Config::from_json(json)?;
        let seed = config.seed.unwrap_or_else(fresh_seed);
        let (mut rows, mut statements) = (0, 0);
        let mut groups = Vec::with_capacity(config.groups.len());
        for (number, group) in config.groups.into_iter().enumerate() {
            groups.push(plan_group(
                number,
                group,
                config.protocol,
                seed,
                &mut rows,
                &mut statements,
            )?);
        }
        Ok(Self {
            target: config.target,
            threads: config.threads as usize,
            seed,
            protocol: config.protocol,
            parameters: config.parameters,
            tries_max: match config.max_tries {
                0 => u32::MAX,
                tries => tries,
            },
            connect_timeout_ns: config.connect_timeout_ms * 1_000_000,
            connecting_max: config.connecting_max,
            backoff_ns_min: config.backoff_ms_min * 1_000_000,
            backoff_ns_max: config.backoff_ms_max * 1_000_000,
            give_up_after_ns: config.give_up_after_ms * 1_000_000,
            reactor: config.reactor,
            cpus: config.cpus,
            nice: config.nice,
            acks: config.acks,
            exit_on_abort: config.exit_on_abort,
            session: config.session,
            log: config.log,
            verbose_errors: config.verbose_errors,
            groups,
            rows,
            statements,
        })
    }

    /// Rows of scripts, over all groups.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows of statements, over all scripts.
    #[must_use]
    pub fn statements(&self) -> usize {
        self.statements
    }

    /// True if the types of a statement's parameters must be requested.
    #[must_use]
    pub fn wants_types(&self, script: &ScriptPlan, statement: &Statement) -> bool {
        self.parameters == Parameters::Binary
            && (statement.rows.is_some() || !statement.parameters.is_empty())
            && script.types[statement.position].get().is_none()
    }

    /// By group: its sessions' `application_name`, if not that of the target.
    pub fn application_names(&self) -> impl Iterator<Item = Option<&str>> {
        let groups = self.groups.iter();
        groups.map(|group| group.application_name.as_deref())
    }

    /// The number of a group's first client, where clients are numbered through all groups.
    #[must_use]
    pub fn first_client(&self, group: usize) -> u32 {
        let before = self.groups[..group].iter();
        before.map(|group| group.schedule.clients_max()).sum()
    }

    /// The group of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn group(&self, name: &str) -> Result<usize, LoadError> {
        self.groups
            .iter()
            .position(|group| group.name == name)
            .ok_or_else(|| {
                let names: Vec<_> = self
                    .groups
                    .iter()
                    .map(|group| group.name.as_str())
                    .collect();
                LoadError::new(
                    "group-unknown",
                    format!("there is no client group {name:?}"),
                )
                .with_hint(format!("the load has {}", names.join(", ")))
            })
    }
}

impl GroupPlan {
    /// Number of transactions of its clients together, if that is bounded.
    #[must_use]
    pub fn transactions_in_all(&self) -> Option<u64> {
        let clients = u64::from(self.schedule.clients_max());
        self.transactions.map(|each| each.saturating_mul(clients))
    }

    /// Queue of its transactions, for an open loop.
    #[must_use]
    pub fn queue(
        &self,
        seed: u64,
        threads: usize,
        started_ns: u64,
        notes_skips: bool,
    ) -> Option<Queue> {
        let arrival = self.arrival.as_ref()?;
        let mut seeds = Rng::new(seed);
        let arrivals = Arrivals::new(arrival.profile.profile(), arrival.process, seeds.next_u64());
        let policy = Policy {
            bound: arrival.bound(),
            limit_ns: self.latency_limit_ns,
            mix: self.mix.clone(),
            most: self.transactions_in_all(),
            notes_skips,
        };
        Some(Queue::new(
            arrivals,
            policy,
            seeds.next_u64(),
            threads,
            started_ns,
        ))
    }
}

fn plan_group(
    number: usize,
    config: GroupConfig,
    protocol: Protocol,
    seed: u64,
    rows: &mut usize,
    statements: &mut usize,
) -> Result<GroupPlan, PlanError> {
    let (parsed, names) = parse_scripts(&config)?;
    let mix = Mix::new(config.scripts.iter().map(|script| script.weight).collect());
    for script in &parsed {
        http::check_fits(script, config.http.is_some())?;
    }
    let scripts = plan_scripts(parsed, protocol, rows, statements)?;
    let schedule = Schedule::new(config.clients, &config.schedule);
    let has_default_seed = config.variables.contains_key("default_seed");
    let seeds = Seeds::new(seed, number, schedule.clients_max(), has_default_seed);
    let has_client_id = config.variables.contains_key("client_id");
    let variables = first_values(&names, &config, seed, seeds.default_seed());
    Ok(GroupPlan {
        name: config.name,
        schedule,
        http: config.http.map(HttpPlan::new),
        transactions: config.transactions,
        seeds,
        arrival: config.arrival,
        latency_limit_ns: config
            .latency_limit_us
            .map_or(NO_LIMIT_NS, |limit_us| limit_us * 1000),
        pool: PoolPlan::new(config.pool.as_ref()),
        application_name: config.application_name,
        instances: config.instances as usize,
        reconnect_every: config.connection.reconnect_every.unwrap_or(u64::MAX),
        slow_start: config.connection.slow_start,
        idle: config.idle,
        think_ns: config.think_ms * 1_000_000,
        scripts,
        mix,
        names,
        variables,
        has_client_id,
    })
}

/// Numbers the rows of scripts and their statements in a tally, and names the statements.
fn plan_scripts(
    parsed: Vec<Script>,
    protocol: Protocol,
    rows: &mut usize,
    statements: &mut usize,
) -> Result<Vec<ScriptPlan>, ScriptError> {
    let mut scripts = Vec::with_capacity(parsed.len());
    for script in parsed {
        if protocol == Protocol::Simple {
            refuse_pipelines(&script)?;
        }
        let effects: Vec<Effect> = script.statements().map(Effect::of).collect();
        let statement_names: Vec<String> = (*statements..)
            .zip(script.statements())
            .map(|(row, statement)| prepared_name(row, statement))
            .collect();
        let count = statement_names.len();
        scripts.push(ScriptPlan {
            script,
            row: *rows,
            statement_row: *statements,
            effects,
            statement_names,
            types: (0..count).map(|_| OnceLock::new()).collect(),
        });
        *rows += 1;
        *statements += count;
    }
    Ok(scripts)
}

/// Values of a new client's variables, except its number. Those of the configuration go first.
fn first_values(
    names: &Arc<Names>,
    config: &GroupConfig,
    seed: u64,
    default_seed: Option<i64>,
) -> Variables {
    let mut variables = Variables::new(names);
    variables.set(Names::SCALE, Value::Int(1));
    variables.set(Names::RANDOM_SEED, Value::Int(seed.cast_signed()));
    if let Some(default_seed) = default_seed {
        variables.set(Names::DEFAULT_SEED, Value::Int(default_seed));
    }
    for (name, value) in &config.variables {
        if let Some(slot) = names.find(name) {
            variables.set_text(slot, value.as_bytes());
        }
    }
    variables
}

/// The group's scripts, with what its configuration puts before their COMMIT.
fn parse_scripts(config: &GroupConfig) -> Result<(Vec<Script>, Arc<Names>), ScriptError> {
    let mut sources: Vec<Source<'_>> = config
        .scripts
        .iter()
        .map(|s| Source {
            name: &s.name,
            text: &s.text,
            file: s.file.as_deref().unwrap_or(&s.name),
        })
        .collect();
    sources.push(block::BLOCK);
    sources.extend(config.witness.as_deref().map(witness::source));
    let defined: Vec<&str> = config.variables.keys().map(String::as_str).collect();
    let script::Group { mut scripts, names } = script::parse(&sources, &defined)?;
    let mut added = scripts.split_off(config.scripts.len()).into_iter();
    let block = added.next().filter(|_| !scripts.is_empty());
    if let Some(block) = block.as_ref().filter(|_| config.hold_open_ms > 0) {
        let hold = |script| hold::hold_open(script, block, config.hold_open_ms);
        scripts = scripts.into_iter().map(hold).collect::<Result<_, _>>()?;
    }
    if let (Some(block), Some(source)) = (&block, added.next()) {
        let witness = witness::command(source)?;
        let leave = |script| witness::leave(script, block, &witness);
        scripts = scripts.into_iter().map(leave).collect::<Result<_, _>>()?;
    }
    Ok((scripts, names))
}

/// Name of a prepared statement on the server. A pooler may assign a session that another load has
/// used: a name that does not depend on the text could execute a statement of that load.
fn prepared_name(row: usize, statement: &Statement) -> String {
    let mut hasher = DefaultHasher::new();
    statement.parameterized.hash(&mut hasher);
    let rows = statement.rows.as_ref().map(Rows::shape);
    rows.hash(&mut hasher);
    format!("s{row}_{:08x}", hasher.finish() & 0xffff_ffff)
}

/// The simple protocol has no pipelines.
fn refuse_pipelines(script: &Script) -> Result<(), ScriptError> {
    let is_start = |command: &Command| matches!(command, Command::StartPipeline);
    match script.commands.iter().position(is_start) {
        None => Ok(()),
        Some(command) => Err(script.error_at(
            command,
            "a pipeline cannot be used in the simple protocol",
            "use the extended or the prepared protocol",
        )),
    }
}

/// A seed that differs from run to run.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(crate::sys::monotonic_ns());
    hasher.finish()
}
