//! The web server of a group that sends requests by HTTP.

use pgdyno_http::Origin;

use crate::config::HttpConfig;
use crate::script::{Command, Script, ScriptError};

/// The web server of a group.
#[derive(Debug)]
pub struct HttpPlan {
    /// As configured.
    pub config: HttpConfig,
    /// Scheme, host and port.
    pub origin: Origin,
    /// The value of the header Host.
    pub authority: String,
    /// Time for the first byte of a response, and for the rest of it.
    pub timeout_ns: u64,
    /// Longest body that a script looks at.
    pub body_bytes_max: usize,
}

impl HttpPlan {
    /// As configured.
    #[must_use]
    pub fn new(config: HttpConfig) -> Self {
        let origin = config.origin();
        Self {
            authority: origin.authority(),
            origin,
            timeout_ns: config.timeout_ms * 1_000_000,
            body_bytes_max: usize::try_from(config.body_bytes_max).unwrap_or(usize::MAX),
            config,
        }
    }

    /// Interval of looks for responses that are overdue.
    #[must_use]
    pub fn look_ns(&self) -> u64 {
        (self.timeout_ns / 20).clamp(1_000_000, 1_000_000_000)
    }
}

/// Requests need a web server, and SQL a database.
///
/// # Errors
/// The first statement that does not fit.
pub fn check_fits(script: &Script, is_http: bool) -> Result<(), ScriptError> {
    let misfit = script.commands.iter().position(|command| match command {
        Command::Sql(statement) => statement.request.is_some() != is_http,
        Command::StartPipeline | Command::SyncPipeline | Command::EndPipeline => is_http,
        _ => false,
    });
    match misfit {
        None => Ok(()),
        Some(command) if is_http => Err(script.error_at(
            command,
            "this is SQL, and the clients send requests to a web server",
            "send it from another client group, or remove the web server (--url, or http of the \
             spec)",
        )),
        Some(command) => Err(script.error_at(
            command,
            "this is a request, and the clients use a database server",
            "name the web server with --url URL, or with http.url in the spec",
        )),
    }
}
