//! The server, the role, and the requirements on connections: libpq's parameters.

use serde::Deserialize;

use super::invalid;
use crate::error::LoadError;

/// Which server of several is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // libpq's words
pub enum SessionAttrs {
    #[default]
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
    PreferStandby,
}

/// In which order hosts are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // libpq's words
pub enum LoadBalance {
    #[default]
    Disable,
    Random,
}

/// Encryption of connections, and verification of the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // libpq's words
pub enum SslMode {
    Disable,
    Allow,
    #[default]
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl SslMode {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Allow => "allow",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }
}

/// Start of the encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // libpq's words
pub enum SslNegotiation {
    #[default]
    Postgres,
    Direct,
}

/// Use of the client's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // libpq's words
pub enum SslCertMode {
    Disable,
    #[default]
    Allow,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[allow(missing_docs)]
pub enum TlsVersion {
    #[serde(rename = "TLSv1.2")]
    V1_2,
    #[serde(rename = "TLSv1.3")]
    V1_3,
}

/// Channel binding of SCRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // libpq's words
pub enum ChannelBinding {
    Disable,
    #[default]
    Prefer,
    Require,
}

/// A version of PostgreSQL's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[allow(missing_docs)]
pub enum ProtocolVersionConfig {
    #[default]
    #[serde(rename = "3.0")]
    V3_0,
    #[serde(rename = "3.2")]
    V3_2,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// Host name, address, or directory of the Unix socket.
    pub host: String,
    /// Its address, if it must not be looked up.
    #[serde(default)]
    pub hostaddr: Option<String>,
    /// Port, also of the Unix socket's name.
    pub port: u16,
}

/// The server and the role.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetConfig {
    /// The server, or several of which each connection takes the first that is suitable.
    pub hosts: Vec<HostConfig>,
    /// Which of them are suitable.
    #[serde(default)]
    pub target_session_attrs: SessionAttrs,
    /// In which order they are tried.
    #[serde(default)]
    pub load_balance_hosts: LoadBalance,
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
    /// Command-line options for the server process, as libpq's `options`.
    #[serde(default)]
    pub options: Option<String>,
    /// Encoding of the sessions; UTF8 if not given, and the server's choice if empty.
    #[serde(default)]
    pub client_encoding: Option<String>,
    /// Encryption.
    #[serde(default)]
    pub sslmode: SslMode,
    /// Its start.
    #[serde(default)]
    pub sslnegotiation: SslNegotiation,
    /// File with the certificates that are trusted, or `system`; `~/.postgresql/root.crt` if not
    /// given.
    #[serde(default)]
    pub sslrootcert: Option<String>,
    /// File with the client's certificate; `~/.postgresql/postgresql.crt` if not given.
    #[serde(default)]
    pub sslcert: Option<String>,
    /// Use of it when a server requests one.
    #[serde(default)]
    pub sslcertmode: SslCertMode,
    /// File with its private key; `~/.postgresql/postgresql.key` if not given.
    #[serde(default)]
    pub sslkey: Option<String>,
    /// The password of the private key.
    #[serde(default)]
    pub sslpassword: Option<String>,
    /// File with revoked certificates; `~/.postgresql/root.crl` if not given.
    #[serde(default)]
    pub sslcrl: Option<String>,
    /// True if the host's name is sent when encryption begins.
    #[serde(default = "yes")]
    pub sslsni: bool,
    /// Oldest version of TLS.
    #[serde(default)]
    pub ssl_min_protocol_version: Option<TlsVersion>,
    /// Newest.
    #[serde(default)]
    pub ssl_max_protocol_version: Option<TlsVersion>,
    /// Binding of SCRAM to the connection.
    #[serde(default)]
    pub channel_binding: ChannelBinding,
    /// The authentication methods that the server may request.
    #[serde(default)]
    pub require_auth: Option<String>,
    /// Oldest version of the protocol.
    #[serde(default)]
    pub min_protocol_version: ProtocolVersionConfig,
    /// Newest.
    #[serde(default)]
    pub max_protocol_version: ProtocolVersionConfig,
}

impl TargetConfig {
    /// Of nobody, nowhere.
    pub(super) fn nobody() -> Self {
        Self {
            hosts: Vec::new(),
            target_session_attrs: SessionAttrs::Any,
            load_balance_hosts: LoadBalance::Disable,
            user: String::new(),
            password: None,
            database: String::new(),
            application_name: String::new(),
            options: None,
            client_encoding: None,
            sslmode: SslMode::Disable,
            sslnegotiation: SslNegotiation::Postgres,
            sslrootcert: None,
            sslcert: None,
            sslcertmode: SslCertMode::Disable,
            sslkey: None,
            sslpassword: None,
            sslcrl: None,
            sslsni: true,
            ssl_min_protocol_version: None,
            ssl_max_protocol_version: None,
            channel_binding: ChannelBinding::Disable,
            require_auth: None,
            min_protocol_version: ProtocolVersionConfig::V3_0,
            max_protocol_version: ProtocolVersionConfig::V3_0,
        }
    }
}

fn default_application_name() -> String {
    "pgdyno".into()
}
fn yes() -> bool {
    true
}

/// The options that conflict.
pub(super) fn check(target: &TargetConfig) -> Result<(), LoadError> {
    if target.hosts.is_empty() {
        return Err(invalid("target.hosts names no server".into()));
    }
    let mode = target.sslmode;
    if target.sslrootcert.as_deref() == Some("system") && mode != SslMode::VerifyFull {
        return Err(invalid(format!(
            "sslmode {:?} is too weak for sslrootcert \"system\", which trusts every public \
             certificate authority",
            mode.as_str()
        ))
        .with_hint("use sslmode verify-full"));
    }
    if target.sslnegotiation == SslNegotiation::Direct && mode < SslMode::Require {
        return Err(invalid(format!(
            "sslmode {:?} is too weak for sslnegotiation \"direct\"",
            mode.as_str()
        ))
        .with_hint("use sslmode require, verify-ca or verify-full"));
    }
    if let (Some(least), Some(most)) = (
        target.ssl_min_protocol_version,
        target.ssl_max_protocol_version,
    ) && least > most
    {
        return Err(invalid(
            "ssl_min_protocol_version is above ssl_max_protocol_version".into(),
        ));
    }
    if target.min_protocol_version > target.max_protocol_version {
        return Err(invalid(
            "min_protocol_version is above max_protocol_version".into(),
        ));
    }
    Ok(())
}
