//! A load's configuration as it is given: JSON, every key but a few with a default.

mod group;
mod http;
mod target;

use std::path::PathBuf;

use serde::Deserialize;

use crate::error::LoadError;
use crate::reactor::Wanted;

pub use group::{ArrivalConfig, GroupConfig, PoolConfig, check_rate, default_pool_wait};
pub use http::HttpConfig;
pub use target::{
    ChannelBinding, HostConfig, LoadBalance, ProtocolVersionConfig, SessionAttrs, SslCertMode,
    SslMode, SslNegotiation, TargetConfig, TlsVersion,
};

/// The way statements are sent.
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

/// The way parameters are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Parameters {
    /// As text.
    #[default]
    Text,
    /// In the binary format of their types, as reported by the server.
    Binary,
}

/// A load.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // the keys are documented in the Python stub
pub struct Config {
    #[serde(default)]
    pub target: Option<TargetConfig>,
    #[serde(default = "one")]
    pub threads: u32,
    #[serde(default)]
    pub seed: Option<u64>,
    #[serde(default = "prepared")]
    pub protocol: Protocol,
    #[serde(default)]
    pub parameters: Parameters,
    #[serde(default = "default_tries")]
    pub max_tries: u32,
    #[serde(default = "default_connect_timeout")]
    pub connect_timeout_ms: u64,
    #[serde(default = "default_connecting_max")]
    pub connecting_max: Option<u32>,
    #[serde(default = "default_backoff_min")]
    pub backoff_ms_min: u64,
    #[serde(default = "default_backoff_max")]
    pub backoff_ms_max: u64,
    #[serde(default = "default_give_up")]
    pub give_up_after_ms: u64,
    #[serde(default)]
    pub reactor: Wanted,
    #[serde(default)]
    pub cpus: Option<Vec<usize>>,
    #[serde(default)]
    pub nice: Option<i32>,
    #[serde(default)]
    pub acks: Option<AcksConfig>,
    #[serde(default)]
    pub log: Option<LogConfig>,
    #[serde(default)]
    pub verbose_errors: bool,
    #[serde(default)]
    pub exit_on_abort: bool,
    #[serde(default)]
    pub session: Option<String>,
    pub groups: Vec<GroupConfig>,
}

/// The ack ledger.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // as above
pub struct AcksConfig {
    pub directory: PathBuf,
    #[serde(default)]
    pub label: Option<u64>,
}

/// Content of the log of transactions.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // the keys are documented in the Python stub
pub struct LogConfig {
    pub prefix: String,
    #[serde(default)]
    pub sampling_rate: Option<f64>,
    #[serde(default)]
    pub aggregate_s: Option<u64>,
    #[serde(default)]
    pub failures_detailed: bool,
}

impl LogConfig {
    /// The first error in it.
    ///
    /// # Errors
    /// A rate or a time that means nothing.
    pub fn check(&self) -> Result<(), String> {
        let is_share = |rate: f64| rate > 0.0 && rate <= 1.0;
        if self.sampling_rate.is_some_and(|rate| !is_share(rate)) {
            return Err("log.sampling_rate must be above 0 and at most 1".into());
        }
        if self.aggregate_s == Some(0) {
            return Err("log.aggregate_s must be above 0".into());
        }
        Ok(())
    }
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
/// Below the 128 that PgBouncer's listening sockets hold. An `Option` because the key may be null.
#[allow(clippy::unnecessary_wraps)]
fn default_connecting_max() -> Option<u32> {
    Some(100)
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
/// Most threads.
const THREADS_MAX: u32 = 1024;
/// Longest of the configured times, in milliseconds: a year.
const TIME_MS_MAX: u64 = 366 * 24 * 3_600_000;

impl Config {
    /// Reads and checks a configuration, except its scripts.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn from_json(json: &str) -> Result<Self, LoadError> {
        let config: Self = serde_json::from_str(json)
            .map_err(|error| invalid(format!("the load configuration is not valid: {error}")))?;
        if let Some(target) = &config.target {
            target::check(target)?;
        }
        check_bounds(&config)?;
        Ok(config)
    }
}

/// Checks SQL that sessions execute to have their settings.
///
/// # Errors
/// It cannot be sent.
pub fn check_session(sql: &str) -> Result<(), LoadError> {
    if sql.contains('\0') {
        let message = "a session's settings contain a zero byte";
        return Err(LoadError::new("config-invalid", message));
    }
    Ok(())
}

fn check_bounds(config: &Config) -> Result<(), LoadError> {
    within("threads", config.threads.into(), 1, THREADS_MAX.into())?;
    within(
        "connect_timeout_ms",
        config.connect_timeout_ms,
        1,
        TIME_MS_MAX,
    )?;
    if let Some(most) = config.connecting_max {
        within("connecting_max", most.into(), 1, u32::MAX.into())?;
    }
    within("backoff_ms_min", config.backoff_ms_min, 1, TIME_MS_MAX)?;
    within(
        "backoff_ms_max",
        config.backoff_ms_max,
        config.backoff_ms_min,
        TIME_MS_MAX,
    )?;
    within("give_up_after_ms", config.give_up_after_ms, 1, TIME_MS_MAX)?;
    if config.cpus.as_ref().is_some_and(Vec::is_empty) {
        return Err(invalid("cpus is an empty list".into()));
    }
    if let Some(level) = config.nice.filter(|level| !(-20..=19).contains(level)) {
        return Err(invalid(format!(
            "nice is {level}, and must be between -20 and 19"
        )));
    }
    if config.parameters == Parameters::Binary && config.protocol == Protocol::Simple {
        let message = "parameters is \"binary\", and the simple protocol has no parameters";
        return Err(invalid(message.into())
            .with_hint("use the prepared or the extended protocol, or parameters as text"));
    }
    if let Some(log) = &config.log {
        log.check().map_err(invalid)?;
    }
    config.session.as_deref().map_or(Ok(()), check_session)?;
    if config.groups.is_empty() {
        return Err(invalid("the load has no client group".into()));
    }
    for (index, group) in config.groups.iter().enumerate() {
        if config.groups[..index]
            .iter()
            .any(|other| other.name == group.name)
        {
            return Err(invalid(format!(
                "two client groups are called {:?}",
                group.name
            )));
        }
        group.check()?;
        if group.http.is_none() && config.target.is_none() {
            let message = format!("client group {:?} has no server", group.name);
            return Err(invalid(message));
        }
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
