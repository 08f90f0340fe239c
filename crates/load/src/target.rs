//! The servers and the role of a load: as configured, nothing connected.

use pgdyno_wire::{Binding, Identity, ProtocolVersion};

use crate::config::{ChannelBinding, ProtocolVersionConfig, SslNegotiation, TargetConfig};
use crate::error::LoadError;
use crate::hosts::{Address, Hosts};
use crate::tls::TlsPlan;

/// The servers and the role.
pub struct Target {
    /// Their addresses.
    pub hosts: Hosts,
    /// For authentication.
    pub identity: Identity,
    /// Encryption of connections.
    pub tls: TlsPlan,
    /// True if encryption begins without a request for it.
    pub direct_tls: bool,
}

/// The server that a connection is to.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Number of the host.
    pub host: usize,
    /// Its address.
    pub address: Address,
    /// True if the connection is encrypted.
    pub encrypted: bool,
}

impl Target {
    /// Reads the files that are needed and looks the hosts' names up.
    ///
    /// # Errors
    /// The configuration names a file that cannot be used, or an authentication method that does
    /// not exist.
    pub fn new(config: &TargetConfig) -> Result<Self, LoadError> {
        Ok(Self {
            tls: TlsPlan::new(config)?,
            hosts: Hosts::new(config),
            identity: identity(config)?,
            direct_tls: config.sslnegotiation == SslNegotiation::Direct,
        })
    }
}

fn identity(config: &TargetConfig) -> Result<Identity, LoadError> {
    let mut parameters = vec![(
        "application_name".to_owned(),
        config.application_name.clone(),
    )];
    if let Some(options) = &config.options {
        parameters.push(("options".to_owned(), options.clone()));
    }
    if let Some(encoding) = &config.client_encoding {
        parameters.push(("client_encoding".to_owned(), encoding.clone()));
    }
    let require_auth = config
        .require_auth
        .as_deref()
        .unwrap_or_default()
        .parse()
        .map_err(|error: String| LoadError::new("config-invalid", error))?;
    Ok(Identity {
        user: config.user.clone(),
        database: config.database.clone(),
        password: config.password.clone(),
        parameters,
        version: version(config.max_protocol_version),
        version_min: version(config.min_protocol_version),
        binding: match config.channel_binding {
            ChannelBinding::Disable => Binding::Disable,
            ChannelBinding::Prefer => Binding::Prefer,
            ChannelBinding::Require => Binding::Require,
        },
        require_auth,
    })
}

fn version(version: ProtocolVersionConfig) -> ProtocolVersion {
    match version {
        ProtocolVersionConfig::V3_0 => ProtocolVersion::V3_0,
        ProtocolVersionConfig::V3_2 => ProtocolVersion::V3_2,
    }
}
