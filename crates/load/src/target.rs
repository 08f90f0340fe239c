//! The servers and the role of a load: as configured, nothing connected.

use pgdyno_wire::{Binding, Identity, ProtocolVersion};

use crate::config::{
    ChannelBinding, HttpConfig, ProtocolVersionConfig, SslNegotiation, TargetConfig,
};
use crate::error::LoadError;
use crate::hosts::{Address, Hosts};
use crate::keys::Keys;
use crate::tls::{self, TlsPlan};

const APPLICATION_NAME: &str = "application_name";

/// The servers and the role.
pub struct Target {
    /// Their addresses.
    pub hosts: Hosts,
    /// For authentication.
    pub identity: Identity,
    /// By group: the identity under its `application_name`, if it has one of its own.
    identities: Vec<Option<Identity>>,
    /// Keys for authentication that were derived already.
    pub keys: Keys,
    /// Encryption of connections.
    pub tls: TlsPlan,
    /// True if encryption begins without a request for it.
    pub direct_tls: bool,
    /// True if it speaks HTTP, and not PostgreSQL's protocol: who connects is connected.
    pub is_http: bool,
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
    /// Reads the files that are needed and looks the hosts' names up. `names`: the groups'
    /// `application_name`.
    ///
    /// # Errors
    /// The configuration names a file that cannot be used, or an authentication method that does
    /// not exist.
    pub fn new<'a>(
        config: &TargetConfig,
        names: impl Iterator<Item = Option<&'a str>>,
    ) -> Result<Self, LoadError> {
        let identity = identity(config)?;
        Ok(Self {
            tls: TlsPlan::new(config, tls::POSTGRESQL)?,
            hosts: Hosts::new(config),
            identities: names.map(|name| named(&identity, name?)).collect(),
            identity,
            keys: Keys::default(),
            direct_tls: config.sslnegotiation == SslNegotiation::Direct,
            is_http: false,
        })
    }

    /// A web server.
    ///
    /// # Errors
    /// The file of trusted certificates cannot be used.
    pub fn http(config: &HttpConfig) -> Result<Self, LoadError> {
        let config = config.target();
        Ok(Self {
            tls: TlsPlan::new(&config, tls::HTTP)?,
            hosts: Hosts::new(&config),
            identities: Vec::new(),
            identity: Identity::default(),
            keys: Keys::default(),
            direct_tls: true,
            is_http: true,
        })
    }

    /// The identity of a group's sessions; without a group, that of the load itself.
    #[must_use]
    pub fn identity_of(&self, group: Option<usize>) -> &Identity {
        let own = group.and_then(|group| self.identities.get(group)?.as_ref());
        own.unwrap_or(&self.identity)
    }
}

fn named(identity: &Identity, application_name: &str) -> Option<Identity> {
    let mut named = identity.clone();
    let parameter = named
        .parameters
        .iter_mut()
        .find(|(name, _)| name == APPLICATION_NAME)?;
    application_name.clone_into(&mut parameter.1);
    Some(named)
}

fn identity(config: &TargetConfig) -> Result<Identity, LoadError> {
    let mut parameters = vec![(APPLICATION_NAME.to_owned(), config.application_name.clone())];
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
