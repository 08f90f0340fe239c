//! A client group's configuration: its mix, how many clients, when their transactions are due, what
//! they share, how they connect.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{HttpConfig, TIME_MS_MAX, invalid, one, within};
use crate::arrival::{Process, Profile, RATE_MAX, Segment};
use crate::error::LoadError;
use crate::schedule::Step;

/// A client group.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // the keys are documented in the Python stub
pub struct GroupConfig {
    pub name: String,
    pub clients: u32,
    #[serde(default)]
    pub schedule: Vec<Step>,
    #[serde(default)]
    pub http: Option<HttpConfig>,
    #[serde(default)]
    pub arrival: Option<ArrivalConfig>,
    #[serde(default)]
    pub latency_limit_us: Option<u64>,
    #[serde(default)]
    pub pool: Option<PoolConfig>,
    #[serde(default = "one")]
    pub instances: u32,
    #[serde(default)]
    pub application_name: Option<String>,
    #[serde(default)]
    pub connection: ConnectionConfig,
    #[serde(default)]
    pub idle: bool,
    #[serde(default)]
    pub hold_open_ms: u64,
    #[serde(default)]
    pub witness: Option<String>,
    #[serde(default)]
    pub think_ms: u64,
    #[serde(default)]
    pub transactions: Option<u64>,
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    #[serde(default)]
    pub scripts: Vec<ScriptConfig>,
}

/// An open loop: when transactions are due.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // as above
pub struct ArrivalConfig {
    pub process: Process,
    pub profile: ProfileConfig,
    pub when_busy: WhenBusy,
    #[serde(default)]
    pub queue_max: Option<u32>,
}

/// The handling of a transaction that is due while every client is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenBusy {
    /// It waits for a client.
    Queue,
    /// It is not executed.
    Skip,
}

/// A rate over time; rates per second.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
#[allow(missing_docs)] // as above
pub enum ProfileConfig {
    Segments {
        segments: Vec<SegmentConfig>,
        #[serde(default)]
        repeat: bool,
    },
    Sine {
        mean: f64,
        amplitude: f64,
        period_ms: u64,
        #[serde(default)]
        phase: f64,
    },
}

/// A stretch of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // as above
pub struct SegmentConfig {
    pub duration_ms: u64,
    pub rate_from: f64,
    pub rate_to: f64,
}

/// The pool that the clients of an instance share.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // as above
pub struct PoolConfig {
    pub max: u32,
    #[serde(default)]
    pub min_idle: u32,
    #[serde(default = "default_pool_wait")]
    pub max_wait_ms: u64,
    #[serde(default)]
    pub max_lifetime_ms: Option<u64>,
    #[serde(default)]
    pub idle_timeout_ms: Option<u64>,
    #[serde(default)]
    pub validation: Option<ValidationConfig>,
}

/// Validation of a pooled connection before a client gets it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // as above
pub struct ValidationConfig {
    #[serde(default = "default_validation")]
    pub query: String,
    #[serde(default)]
    pub after_idle_ms: u64,
}

/// Connection policy of a group's clients.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)] // as above
pub struct ConnectionConfig {
    pub reconnect_every: Option<u64>,
    pub slow_start: bool,
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        Self {
            reconnect_every: None,
            slow_start: true,
        }
    }
}

/// A script of a group's mix.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // as above
pub struct ScriptConfig {
    pub name: String,
    pub text: String,
    #[serde(default)]
    pub file: Option<String>,
    #[serde(default = "one")]
    pub weight: u32,
}

fn default_validation() -> String {
    "select 1".into()
}

/// Longest wait of a client for a pooled connection, in milliseconds.
pub fn default_pool_wait() -> u64 {
    30_000
}

/// Most clients of one group.
const CLIENTS_MAX: u32 = 100_000;
/// Most transactions of one client.
const TRANSACTIONS_MAX: u64 = 1 << 53;
/// Room for transactions that are due while every client is busy.
const QUEUE_MAX: u32 = 1_000_000;
/// The most that it can be.
const QUEUE_MAX_MAX: u32 = 1_000_000_000;
/// Most segments of a profile.
const SEGMENTS_MAX: usize = 100_000;

impl GroupConfig {
    /// Checks everything but the scripts' texts.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), LoadError> {
        within("clients", self.clients.into(), 0, CLIENTS_MAX.into())?;
        within("think_ms", self.think_ms, 0, TIME_MS_MAX)?;
        if let Some(transactions) = self.transactions {
            within("transactions", transactions, 1, TRANSACTIONS_MAX)?;
        }
        self.check_schedule()?;
        within("hold_open_ms", self.hold_open_ms, 0, TIME_MS_MAX)?;
        if self
            .application_name
            .as_ref()
            .is_some_and(|name| name.contains('\0'))
        {
            return Err(self.refuse("has a zero byte in its application_name"));
        }
        within("instances", self.instances.into(), 1, CLIENTS_MAX.into())?;
        if let Some(pool) = &self.pool {
            pool.check()?;
        }
        if let Some(every) = self.connection.reconnect_every {
            within("connection.reconnect_every", every, 1, TRANSACTIONS_MAX)?;
        }
        if let Some(limit_us) = self.latency_limit_us {
            within("latency_limit_us", limit_us, 1, TIME_MS_MAX * 1000)?;
        }
        if let Some(http) = &self.http {
            http.check()?;
            self.check_http()?;
        }
        if self.idle {
            return self.check_idle();
        }
        if self.scripts.iter().all(|script| script.weight == 0) {
            return Err(self.refuse("has no script with a weight above 0"));
        }
        let Some(arrival) = &self.arrival else {
            return Ok(());
        };
        if self.think_ms > 0 {
            let why = "has both think_ms and an arrival, and the arrival determines when \
                       transactions start";
            return Err(self.refuse(why));
        }
        arrival.check()
    }

    fn check_schedule(&self) -> Result<(), LoadError> {
        for pair in self.schedule.windows(2) {
            if pair[1].at_ms < pair[0].at_ms {
                return Err(self.refuse("has a schedule whose steps are not in order of at_ms"));
            }
        }
        for step in &self.schedule {
            within("clients", step.clients.into(), 0, CLIENTS_MAX.into())?;
            within("at_ms", step.at_ms, 0, TIME_MS_MAX)?;
            within("ramp_ms", step.ramp_ms, 0, TIME_MS_MAX)?;
        }
        Ok(())
    }

    /// Requests have no use for what is about sessions of a database.
    fn check_http(&self) -> Result<(), LoadError> {
        let validation = self.pool.as_ref().and_then(|pool| pool.validation.as_ref());
        let useless = [
            (self.idle, "idle clients"),
            (self.hold_open_ms > 0, "hold_open_ms"),
            (self.witness.is_some(), "a witness"),
            (self.application_name.is_some(), "an application_name"),
            (validation.is_some(), "validation of its pool"),
        ];
        match useless.iter().find(|(given, _)| *given) {
            Some((_, what)) => Err(self.refuse(&format!(
                "sends requests by HTTP, so {what} cannot be used: that is for PostgreSQL"
            ))),
            None => Ok(()),
        }
    }

    /// Clients that only hold a connection have no use for what says how they use it.
    fn check_idle(&self) -> Result<(), LoadError> {
        let useless = [
            (self.arrival.is_some(), "an arrival"),
            (self.pool.is_some(), "a pool"),
            (self.transactions.is_some(), "a number of transactions"),
            (self.connection.reconnect_every.is_some(), "reconnect_every"),
            (self.hold_open_ms > 0, "hold_open_ms"),
            (self.witness.is_some(), "a witness"),
        ];
        match useless.iter().find(|(given, _)| *given) {
            Some((_, what)) => Err(self.refuse(&format!(
                "is idle, so {what} cannot be used: its clients connect and never send"
            ))),
            None => Ok(()),
        }
    }

    fn refuse(&self, why: &str) -> LoadError {
        invalid(format!("client group {:?} {why}", self.name))
    }
}

impl PoolConfig {
    fn check(&self) -> Result<(), LoadError> {
        within("pool.max", self.max.into(), 1, CLIENTS_MAX.into())?;
        within("pool.min_idle", self.min_idle.into(), 0, self.max.into())?;
        within("pool.max_wait_ms", self.max_wait_ms, 1, TIME_MS_MAX)?;
        let limits = [
            ("pool.max_lifetime_ms", self.max_lifetime_ms),
            ("pool.idle_timeout_ms", self.idle_timeout_ms),
        ];
        for (name, limit_ms) in limits {
            within(name, limit_ms.unwrap_or(1), 1, TIME_MS_MAX)?;
        }
        let Some(validation) = &self.validation else {
            return Ok(());
        };
        within("after_idle_ms", validation.after_idle_ms, 0, TIME_MS_MAX)?;
        if validation.query.trim().is_empty() || validation.query.contains('\0') {
            return Err(invalid("pool.validation.query is not a query".into()));
        }
        Ok(())
    }
}

impl ArrivalConfig {
    fn check(&self) -> Result<(), LoadError> {
        if let Some(queue_max) = self.queue_max {
            if self.when_busy == WhenBusy::Skip {
                let message = "arrival.queue_max is for when_busy \"queue\"; \"skip\" has no queue";
                return Err(invalid(message.into()));
            }
            within(
                "arrival.queue_max",
                queue_max.into(),
                1,
                QUEUE_MAX_MAX.into(),
            )?;
        }
        self.profile.check()
    }

    /// Number of transactions that wait while every client is busy.
    #[must_use]
    pub fn bound(&self) -> usize {
        match self.when_busy {
            WhenBusy::Queue => self.queue_max.unwrap_or(QUEUE_MAX) as usize,
            WhenBusy::Skip => 0,
        }
    }
}

impl ProfileConfig {
    fn check(&self) -> Result<(), LoadError> {
        match self {
            Self::Segments { segments, .. } => {
                within(
                    "arrival.profile.segments",
                    segments.len() as u64,
                    1,
                    SEGMENTS_MAX as u64,
                )?;
                for segment in segments {
                    within("duration_ms", segment.duration_ms, 1, TIME_MS_MAX)?;
                    check_rate("rate_from", segment.rate_from)?;
                    check_rate("rate_to", segment.rate_to)?;
                }
                Ok(())
            }
            Self::Sine {
                mean,
                amplitude,
                period_ms,
                phase,
            } => {
                within("period_ms", *period_ms, 1, TIME_MS_MAX)?;
                check_rate("mean", *mean)?;
                check_rate("amplitude", *amplitude)?;
                check_rate("mean + amplitude", mean + amplitude)?;
                if amplitude > mean {
                    let message = format!(
                        "amplitude is {amplitude} and mean {mean}: the rate would go below 0"
                    );
                    return Err(invalid(message));
                }
                if phase.is_finite() {
                    return Ok(());
                }
                Err(invalid(format!(
                    "phase is {phase}, and must be a number of turns"
                )))
            }
        }
    }

    /// As what it is.
    #[must_use]
    pub fn profile(&self) -> Profile {
        match self {
            Self::Segments { segments, repeat } => {
                let segments: Vec<Segment> = segments
                    .iter()
                    .map(|segment| Segment {
                        duration_ns: segment.duration_ms * 1_000_000,
                        rate_from: segment.rate_from,
                        rate_to: segment.rate_to,
                    })
                    .collect();
                Profile::segments(&segments, *repeat)
            }
            Self::Sine {
                mean,
                amplitude,
                period_ms,
                phase,
            } => Profile::sine(*mean, *amplitude, period_ms * 1_000_000, *phase),
        }
    }
}

/// A rate, or what else is one: between 0 and the most that there can be.
pub fn check_rate(name: &str, rate: f64) -> Result<(), LoadError> {
    if (0.0..=RATE_MAX).contains(&rate) {
        return Ok(());
    }
    Err(invalid(format!(
        "{name} is {rate} per second, and must be between 0 and {RATE_MAX}"
    )))
}
