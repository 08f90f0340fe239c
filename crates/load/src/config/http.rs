//! The web server that a client group sends requests to.

use serde::Deserialize;

use super::{
    HostConfig, SslCertMode, SslMode, SslNegotiation, TIME_MS_MAX, TargetConfig, invalid, within,
};
use crate::error::LoadError;
use pgdyno_http::Origin;

/// Largest body of a response that a script looks at.
const BODY_BYTES_MAX: u64 = 1 << 30;

/// The web server that a client group sends requests to.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // the keys are documented in the Python stub
pub struct HttpConfig {
    pub host: String,
    pub port: u16,
    #[serde(default)]
    pub tls: bool,
    #[serde(default = "yes")]
    pub verify: bool,
    #[serde(default)]
    pub ca_file: Option<String>,
    #[serde(default = "default_timeout")]
    pub timeout_ms: u64,
    #[serde(default = "yes")]
    pub cookies: bool,
    #[serde(default = "default_body_bytes_max")]
    pub body_bytes_max: u64,
}

fn yes() -> bool {
    true
}
fn default_timeout() -> u64 {
    60_000
}
fn default_body_bytes_max() -> u64 {
    8 << 20
}

impl HttpConfig {
    /// Checks it.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), LoadError> {
        within("http.timeout_ms", self.timeout_ms, 1, TIME_MS_MAX)?;
        within(
            "http.body_bytes_max",
            self.body_bytes_max,
            1,
            BODY_BYTES_MAX,
        )?;
        let is_bad = |c: char| c.is_ascii_control() || c.is_whitespace() || c == '/';
        if self.host.is_empty() || self.host.contains(is_bad) || self.port == 0 {
            let (host, port) = (&self.host, self.port);
            return Err(invalid(format!(
                "{host:?} and port {port} name no web server"
            )));
        }
        Ok(())
    }

    /// Scheme, host and port.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin {
            secure: self.tls,
            host: self.host.clone(),
            port: self.port,
        }
    }

    /// As what connections are made with.
    #[must_use]
    pub fn target(&self) -> TargetConfig {
        let (sslmode, trusted) = match (self.tls, self.verify) {
            (false, _) => (SslMode::Disable, None),
            (true, true) => (
                SslMode::VerifyFull,
                Some(self.ca_file.clone().unwrap_or_else(|| "system".into())),
            ),
            // No file of that name: nothing is trusted, and nothing is checked.
            (true, false) => (SslMode::Require, Some(String::new())),
        };
        TargetConfig {
            hosts: vec![HostConfig {
                host: self.host.clone(),
                hostaddr: None,
                port: self.port,
            }],
            sslmode,
            sslnegotiation: SslNegotiation::Direct,
            sslrootcert: trusted,
            sslcertmode: SslCertMode::Disable,
            ..TargetConfig::nobody()
        }
    }
}
