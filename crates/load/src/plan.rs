//! What a load is to do: the configuration as given (JSON), checked and resolved into a [`Plan`].

use std::sync::Arc;

use serde::Deserialize;

use crate::client::Client;
use crate::error::LoadError;
use crate::schedule::{Schedule, Step};
use crate::script::{self, Command, Names, Script, ScriptError, Source, Value, Variables};

/// Why a configuration is refused.
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

/// How statements are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Parsed once per connection, then bound and executed.
    Prepared,
    /// Parsed each time.
    Extended,
    /// As text, values put in.
    Simple,
}

/// Where the server is and who logs in.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetConfig {
    /// Host name, address, or directory of the Unix socket.
    pub host: String,
    /// Port, also of the Unix socket's name.
    pub port: u16,
    /// Role.
    pub user: String,
    /// Its password.
    #[serde(default)]
    pub password: Option<String>,
    /// Database.
    pub database: String,
    /// As `pg_stat_activity` shows it.
    #[serde(default = "default_application_name")]
    pub application_name: String,
    /// libpq's word; encryption is not supported.
    #[serde(default = "default_sslmode")]
    pub sslmode: String,
    /// Command-line options for the server process, as libpq's `options`.
    #[serde(default)]
    pub options: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    target: TargetConfig,
    #[serde(default = "one")]
    threads: u32,
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default = "prepared")]
    protocol: Protocol,
    #[serde(default = "default_tries")]
    max_tries: u32,
    #[serde(default = "default_connect_timeout")]
    connect_timeout_ms: u64,
    #[serde(default = "default_backoff_min")]
    backoff_ms_min: u64,
    #[serde(default = "default_backoff_max")]
    backoff_ms_max: u64,
    #[serde(default = "default_give_up")]
    give_up_after_ms: u64,
    groups: Vec<GroupConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupConfig {
    name: String,
    clients: u32,
    #[serde(default)]
    schedule: Vec<Step>,
    #[serde(default)]
    pool: Option<PoolConfig>,
    #[serde(default)]
    think_ms: u64,
    #[serde(default)]
    variables: std::collections::BTreeMap<String, String>,
    scripts: Vec<ScriptConfig>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolConfig {
    max: u32,
    #[serde(default = "default_pool_wait")]
    max_wait_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptConfig {
    name: String,
    text: String,
    #[serde(default)]
    file: Option<String>,
    #[serde(default = "one")]
    weight: u32,
}

fn default_application_name() -> String {
    "pgdyno".into()
}
fn default_sslmode() -> String {
    "prefer".into()
}
fn one() -> u32 {
    1
}
fn prepared() -> Protocol {
    Protocol::Prepared
}
fn default_tries() -> u32 {
    10
}
fn default_connect_timeout() -> u64 {
    10_000
}
fn default_backoff_min() -> u64 {
    50
}
fn default_backoff_max() -> u64 {
    2000
}
fn default_give_up() -> u64 {
    30_000
}
fn default_pool_wait() -> u64 {
    30_000
}

/// Most clients of one group.
const CLIENTS_MAX: u32 = 100_000;
/// Most threads.
const THREADS_MAX: u32 = 1024;
/// Longest of the configured times, in milliseconds: a year.
const TIME_MS_MAX: u64 = 366 * 24 * 3_600_000;

/// A checked load, ready to start.
#[derive(Debug)]
pub struct Plan {
    /// The server.
    pub target: TargetConfig,
    /// Event loops.
    pub threads: usize,
    /// Start of all randomness.
    pub seed: u64,
    /// How statements are sent.
    pub protocol: Protocol,
    /// Tries of a transaction that fails with 40001 or 40P01, the first included.
    pub tries_max: u32,
    /// Time for a connection to be established.
    pub connect_timeout_ns: u64,
    /// First pause before connecting again.
    pub backoff_ns_min: u64,
    /// Longest pause.
    pub backoff_ns_max: u64,
    /// With no connection left for this long, the load gives up.
    pub give_up_after_ns: u64,
    /// Client groups.
    pub groups: Vec<GroupPlan>,
    rows: usize,
    statements: usize,
}

/// One client group.
#[derive(Debug)]
pub struct GroupPlan {
    /// Its name.
    pub name: String,
    /// Clients over time.
    pub schedule: Schedule,
    /// Connections at most if clients share them, and how long a client waits for one, in ns.
    pub pool_max: Option<u32>,
    /// How long a client waits for a pooled connection.
    pub pool_wait_ns_max: u64,
    /// Pause of a client between two transactions.
    pub think_ns: u64,
    /// The mix.
    pub scripts: Vec<ScriptPlan>,
    /// What its scripts' variables are called.
    pub names: Arc<Names>,
    /// What a new client's variables hold, but for its number.
    pub variables: Variables,
    weight_total: u64,
}

/// One script of a group's mix.
#[derive(Debug)]
pub struct ScriptPlan {
    /// Parsed.
    pub script: Script,
    /// Its share in the mix.
    pub weight: u32,
    /// Its row in a tally.
    pub row: usize,
    /// Row of its first statement in a tally.
    pub statement_row: usize,
}

impl Plan {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn from_json(json: &str) -> Result<Self, PlanError> {
        let config: Config = serde_json::from_str(json)
            .map_err(|error| invalid(format!("the load configuration is not valid: {error}")))?;
        check_target(&config.target)?;
        check_bounds(&config)?;
        let seed = config.seed.unwrap_or_else(fresh_seed);
        let (mut rows, mut statements) = (0, 0);
        let mut groups = Vec::with_capacity(config.groups.len());
        for group in config.groups {
            if groups
                .iter()
                .any(|other: &GroupPlan| other.name == group.name)
            {
                return Err(
                    invalid(format!("two client groups are called {:?}", group.name)).into(),
                );
            }
            groups.push(plan_group(group, seed, &mut rows, &mut statements)?);
        }
        Ok(Self {
            target: config.target,
            threads: config.threads as usize,
            seed,
            protocol: config.protocol,
            tries_max: config.max_tries,
            connect_timeout_ns: config.connect_timeout_ms * 1_000_000,
            backoff_ns_min: config.backoff_ms_min * 1_000_000,
            backoff_ns_max: config.backoff_ms_max * 1_000_000,
            give_up_after_ns: config.give_up_after_ms * 1_000_000,
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

    /// By row: how many of these clients have an open transaction.
    pub fn count_open<'a>(&self, clients: impl Iterator<Item = &'a Client>) -> Vec<u64> {
        let mut counts = vec![0; self.rows];
        for client in clients.filter(|client| client.open) {
            counts[self.groups[client.group].scripts[client.script].row] += 1;
        }
        counts
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
    /// The script at `draw`, a number below the sum of weights.
    #[must_use]
    pub fn script_at(&self, mut draw: u64) -> usize {
        for (index, script) in self.scripts.iter().enumerate() {
            match draw.checked_sub(u64::from(script.weight)) {
                Some(rest) => draw = rest,
                None => return index,
            }
        }
        self.scripts.len() - 1
    }

    /// Sum of the scripts' weights.
    #[must_use]
    pub fn weight_total(&self) -> u64 {
        self.weight_total
    }
}

fn plan_group(
    config: GroupConfig,
    seed: u64,
    rows: &mut usize,
    statements: &mut usize,
) -> Result<GroupPlan, PlanError> {
    let sources: Vec<Source<'_>> = config
        .scripts
        .iter()
        .map(|s| Source {
            name: &s.name,
            text: &s.text,
            file: s.file.as_deref().unwrap_or(&s.name),
        })
        .collect();
    let defined: Vec<&str> = config.variables.keys().map(String::as_str).collect();
    let script::Group {
        scripts: parsed,
        names,
    } = script::parse(&sources, &defined)?;
    let mut scripts = Vec::with_capacity(parsed.len());
    for (script, config) in parsed.into_iter().zip(&config.scripts) {
        refuse_unsupported(&script)?;
        let count = script.statements().count();
        scripts.push(ScriptPlan {
            script,
            weight: config.weight,
            row: *rows,
            statement_row: *statements,
        });
        *rows += 1;
        *statements += count;
    }
    let mut variables = Variables::new(&names);
    let seed_value = Value::Int(seed.cast_signed());
    variables.set(Names::SCALE, Value::Int(1));
    variables.set(Names::RANDOM_SEED, seed_value);
    variables.set(Names::DEFAULT_SEED, seed_value);
    for (name, value) in &config.variables {
        if let Some(slot) = names.find(name) {
            variables.set_text(slot, value.as_bytes());
        }
    }
    Ok(GroupPlan {
        name: config.name,
        schedule: Schedule::new(config.clients, &config.schedule),
        pool_max: config.pool.map(|pool| pool.max),
        pool_wait_ns_max: config
            .pool
            .map_or(default_pool_wait(), |pool| pool.max_wait_ms)
            * 1_000_000,
        think_ns: config.think_ms * 1_000_000,
        weight_total: scripts
            .iter()
            .map(|script: &ScriptPlan| u64::from(script.weight))
            .sum(),
        scripts,
        names,
        variables,
    })
}

/// Pipelines come with a later version of the engine.
fn refuse_unsupported(script: &Script) -> Result<(), LoadError> {
    for (command, line) in script.commands.iter().zip(&script.lines) {
        let word = match command {
            Command::StartPipeline => "\\startpipeline",
            Command::SyncPipeline => "\\syncpipeline",
            Command::EndPipeline => "\\endpipeline",
            _ => continue,
        };
        let place = format!("{}:{line}", script.file);
        return Err(LoadError::new(
            "script-unsupported",
            format!("{place}: {word} is not supported yet"),
        )
        .with_hint("send the statements one by one, without a pipeline"));
    }
    Ok(())
}

fn check_target(target: &TargetConfig) -> Result<(), LoadError> {
    match target.sslmode.as_str() {
        "disable" | "allow" | "prefer" => Ok(()),
        "require" | "verify-ca" | "verify-full" => Err(LoadError::new(
            "tls-unsupported",
            format!(
                "sslmode={} asks for an encrypted connection, which this version cannot make",
                target.sslmode
            ),
        )
        .with_hint("use sslmode=prefer if the server also accepts connections without encryption")),
        other => Err(invalid(format!(
            "sslmode {other:?} is not one of disable, allow, prefer, require, verify-ca, verify-full"
        ))),
    }
}

fn check_bounds(config: &Config) -> Result<(), LoadError> {
    within("threads", config.threads.into(), 1, THREADS_MAX.into())?;
    within("max_tries", config.max_tries.into(), 1, u32::MAX.into())?;
    within(
        "connect_timeout_ms",
        config.connect_timeout_ms,
        1,
        TIME_MS_MAX,
    )?;
    within("backoff_ms_min", config.backoff_ms_min, 1, TIME_MS_MAX)?;
    within(
        "backoff_ms_max",
        config.backoff_ms_max,
        config.backoff_ms_min,
        TIME_MS_MAX,
    )?;
    within("give_up_after_ms", config.give_up_after_ms, 1, TIME_MS_MAX)?;
    if config.groups.is_empty() {
        return Err(invalid("the load has no client group".into()));
    }
    config.groups.iter().try_for_each(check_group)
}

fn check_group(group: &GroupConfig) -> Result<(), LoadError> {
    within("clients", group.clients.into(), 0, CLIENTS_MAX.into())?;
    within("think_ms", group.think_ms, 0, TIME_MS_MAX)?;
    for pair in group.schedule.windows(2) {
        if pair[1].at_ms < pair[0].at_ms {
            return Err(invalid(format!(
                "client group {:?}: the steps of its schedule are not in order of at_ms",
                group.name
            )));
        }
    }
    for step in &group.schedule {
        within("clients", step.clients.into(), 0, CLIENTS_MAX.into())?;
        within("at_ms", step.at_ms, 0, TIME_MS_MAX)?;
        within("ramp_ms", step.ramp_ms, 0, TIME_MS_MAX)?;
    }
    if let Some(pool) = group.pool {
        within("pool.max", pool.max.into(), 1, CLIENTS_MAX.into())?;
        within("pool.max_wait_ms", pool.max_wait_ms, 1, TIME_MS_MAX)?;
    }
    if group.scripts.iter().all(|script| script.weight == 0) {
        return Err(invalid(format!(
            "client group {:?} has no script with a weight above 0",
            group.name
        )));
    }
    Ok(())
}

fn within(name: &str, value: u64, least: u64, most: u64) -> Result<(), LoadError> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(invalid(format!(
            "{name} is {value}, and must be between {least} and {most}"
        )))
    }
}

fn invalid(message: String) -> LoadError {
    LoadError::new("config-invalid", message)
}

/// A seed that differs from run to run.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(crate::sys::monotonic_ns());
    hasher.finish()
}
