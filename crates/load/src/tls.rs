//! TLS without I/O: what came from the socket in, plain bytes out, and the other way round.
//!
//! [`TlsPlan`] is made once from the configuration; [`Tls`] is one connection's. What `sslmode`,
//! `sslrootcert` and their kin mean is libpq's.

mod files;
mod verify;

use std::io::{Read, Write};
use std::net::IpAddr;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use pkcs1::RsaPssParams;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, InconsistentKeys,
    SupportedProtocolVersion,
};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};
use x509_cert::spki::AlgorithmIdentifierOwned;

use crate::config::{SslMode, TargetConfig, TlsVersion};
use crate::error::LoadError;
use verify::{Chains, Verifier, WrongName};

/// Name of PostgreSQL's protocol in a handshake (ALPN).
pub const POSTGRESQL: &[u8] = b"postgresql";
/// Name of HTTP/1.1 likewise.
pub const HTTP: &[u8] = b"http/1.1";
/// Signature algorithm (RFC 4055).
const RSA_PSS: &str = "1.2.840.113549.1.1.10";

/// Encryption of each host's connections.
pub struct TlsPlan {
    /// By host; or why there can be no encryption.
    hosts: Vec<Result<HostTls, LoadError>>,
}

struct HostTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsPlan {
    /// Reads the files that are named, or that are where libpq looks for them.
    ///
    /// # Errors
    /// One is missing, cannot be read or does not fit; but where encryption is only preferred, that
    /// shows when a connection tries it.
    pub fn new(config: &TargetConfig, protocol: &[u8]) -> Result<Self, LoadError> {
        if config.sslmode == SslMode::Disable {
            return Ok(Self { hosts: Vec::new() });
        }
        let common = Common::new(config);
        if config.sslmode >= SslMode::Require
            && let Err(error) = &common
        {
            return Err(error.clone());
        }
        let host = |host: &crate::config::HostConfig| match &common {
            Ok(common) => common.for_host(config, &host.host, protocol),
            Err(error) => Err(error.clone()),
        };
        Ok(Self {
            hosts: config.hosts.iter().map(host).collect(),
        })
    }

    /// Begins an encrypted connection to the host of this number.
    ///
    /// # Errors
    /// It cannot be, for a reason of our own.
    pub fn connect(&self, host: usize) -> Result<Box<Tls>, LoadError> {
        match self.hosts.get(host) {
            Some(Ok(host)) => {
                let connection = ClientConnection::new(Arc::clone(&host.config), host.name.clone())
                    .map_err(|error| LoadError::new("tls-failed", error.to_string()))?;
                Ok(Box::new(Tls { connection }))
            }
            Some(Err(error)) => Err(error.clone()),
            None => Err(LoadError::new("tls-failed", "encryption is disabled")),
        }
    }
}

/// Settings that all hosts share.
struct Common {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
    chains: Option<Arc<Chains>>,
    own: Option<files::Own>,
}

impl Common {
    fn new(config: &TargetConfig) -> Result<Self, LoadError> {
        let provider = Arc::new(provider::default_provider());
        let chains = files::trusted(config)?
            .map(|trusted| Chains::new(trusted, Arc::clone(&provider)))
            .transpose()?;
        Ok(Self {
            versions: versions(config),
            chains: chains.map(Arc::new),
            own: files::own(config)?,
            provider,
        })
    }

    fn for_host(
        &self,
        config: &TargetConfig,
        host: &str,
        protocol: &[u8],
    ) -> Result<HostTls, LoadError> {
        let must_name = (config.sslmode == SslMode::VerifyFull).then(|| host.to_owned());
        let verifier = Verifier::new(self.chains.clone(), must_name, &self.provider);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&self.versions)
            .map_err(|error| LoadError::new("tls-failed", error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut tls = match &self.own {
            Some(own) => builder.with_client_cert_resolver(self.certify(own)?),
            None => builder.with_no_client_auth(),
        };
        tls.alpn_protocols = vec![protocol.to_vec()];
        tls.enable_sni = config.sslsni;
        // PostgreSQL does not resume sessions.
        tls.resumption = Resumption::disabled();
        Ok(HostTls {
            config: Arc::new(tls),
            name: name(host),
        })
    }
}

impl Common {
    /// The client's certificate with its key. One of version 1 is taken as it is, since rustls cannot
    /// look into it.
    fn certify(&self, own: &files::Own) -> Result<Arc<SingleCertAndKey>, LoadError> {
        let wrong = |why: String| {
            LoadError::new(
                "tls-files",
                format!("the client's certificate cannot be used: {why}"),
            )
        };
        let key = self
            .provider
            .key_provider
            .load_private_key(own.key.clone_key())
            .map_err(|error| wrong(error.to_string()))?;
        let certified = CertifiedKey::new(own.chain.clone(), key);
        if let Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) =
            certified.keys_match()
        {
            return Err(wrong(
                "the private key does not match the certificate".into(),
            ));
        }
        Ok(Arc::new(SingleCertAndKey::from(certified)))
    }
}

/// Name of the host in the handshake; omitted for a host without a valid name.
fn name(host: &str) -> ServerName<'static> {
    let unnamed = IpAddr::from([0, 0, 0, 0]);
    ServerName::try_from(host.to_owned()).unwrap_or_else(|_| ServerName::from(unnamed))
}

fn versions(config: &TargetConfig) -> Vec<&'static SupportedProtocolVersion> {
    let least = config.ssl_min_protocol_version.unwrap_or(TlsVersion::V1_2);
    let most = config.ssl_max_protocol_version.unwrap_or(TlsVersion::V1_3);
    [
        (TlsVersion::V1_2, &rustls::version::TLS12),
        (TlsVersion::V1_3, &rustls::version::TLS13),
    ]
    .into_iter()
    .filter(|(version, _)| (least..=most).contains(version))
    .map(|(_, supported)| supported)
    .collect()
}

/// Encryption of a connection.
pub struct Tls {
    connection: ClientConnection,
}

impl Tls {
    /// Takes what came from the socket; what it says is appended to `plain`. What must be sent in
    /// turn is for [`Tls::flush`] to write.
    ///
    /// # Errors
    /// The server, or its certificate, is not as it must be. The connection is of no use after that.
    pub fn open(&mut self, mut raw: &[u8], plain: &mut Vec<u8>) -> Result<(), TlsError> {
        while !raw.is_empty() {
            // Reading from memory does not fail, unless nobody took the plain bytes.
            if self.connection.read_tls(&mut raw).is_err() {
                return Err(TlsError::new("its records do not end"));
            }
            let state = self
                .connection
                .process_new_packets()
                .map_err(|error| explain(&error))?;
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            if self
                .connection
                .reader()
                .read_exact(&mut plain[start..])
                .is_err()
            {
                return Err(TlsError::new("its records are damaged"));
            }
            if state.peer_has_closed() {
                break;
            }
        }
        Ok(())
    }

    /// Encrypts: `bytes` is plain before and for the socket after.
    pub fn seal(&mut self, bytes: &mut BytesMut) {
        self.connection.set_buffer_limit(None);
        // Writing to memory does not fail.
        let _ = self.connection.writer().write_all(bytes);
        bytes.clear();
        self.flush(bytes);
    }

    /// Writes what the handshake has to send.
    pub fn flush(&mut self, out: &mut BytesMut) {
        let mut writer = out.writer();
        while self.connection.wants_write() {
            if self.connection.write_tls(&mut writer).is_err() {
                break;
            }
        }
    }

    /// Writes that nothing more will be sent.
    pub fn say_goodbye(&mut self, out: &mut BytesMut) {
        self.connection.send_close_notify();
        self.flush(out);
    }

    /// True if the handshake is still under way.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// True if both sides agreed on PostgreSQL's protocol.
    #[must_use]
    pub fn agreed_on_postgresql(&self) -> bool {
        self.connection.alpn_protocol() == Some(POSTGRESQL)
    }

    /// The hash of the server's certificate that SCRAM can be bound to (RFC 5929).
    #[must_use]
    pub fn end_point(&self) -> Option<Box<[u8]>> {
        end_point(self.connection.peer_certificates()?.first()?)
    }
}

/// The hash is the one that the certificate's signature uses, or SHA-256 for those that are out of
/// date, as libpq has it. Ed25519 and Ed448 have none, and libpq connects with neither.
fn end_point(certificate: &CertificateDer<'_>) -> Option<Box<[u8]>> {
    let parsed = Certificate::from_der(certificate).ok()?;
    let signature = &parsed.signature_algorithm;
    let oid = signature.oid.to_string();
    let hash = match oid.as_str() {
        RSA_PSS => hash_of_pss(signature)?,
        other => other.to_owned(),
    };
    Some(match hash.as_str() {
        // A hash; with RSA; with ECDSA.
        "1.2.840.113549.2.5" | "1.3.14.3.2.26" | "2.16.840.1.101.3.4.2.1" => {
            digest::<Sha256>(certificate)
        }
        "1.2.840.113549.1.1.4" | "1.2.840.113549.1.1.5" | "1.2.840.10045.4.1" => {
            digest::<Sha256>(certificate)
        }
        "1.2.840.113549.1.1.11" | "1.2.840.10045.4.3.2" => digest::<Sha256>(certificate),
        "2.16.840.1.101.3.4.2.4" | "1.2.840.113549.1.1.14" | "1.2.840.10045.4.3.1" => {
            digest::<Sha224>(certificate)
        }
        "2.16.840.1.101.3.4.2.2" | "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => {
            digest::<Sha384>(certificate)
        }
        "2.16.840.1.101.3.4.2.3" | "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => {
            digest::<Sha512>(certificate)
        }
        "2.16.840.1.101.3.4.2.7" | "2.16.840.1.101.3.4.3.13" | "2.16.840.1.101.3.4.3.9" => {
            digest::<Sha3_224>(certificate)
        }
        "2.16.840.1.101.3.4.2.8" | "2.16.840.1.101.3.4.3.14" | "2.16.840.1.101.3.4.3.10" => {
            digest::<Sha3_256>(certificate)
        }
        "2.16.840.1.101.3.4.2.9" | "2.16.840.1.101.3.4.3.15" | "2.16.840.1.101.3.4.3.11" => {
            digest::<Sha3_384>(certificate)
        }
        "2.16.840.1.101.3.4.2.10" | "2.16.840.1.101.3.4.3.16" | "2.16.840.1.101.3.4.3.12" => {
            digest::<Sha3_512>(certificate)
        }
        _ => return None,
    })
}

fn digest<Hash: Digest>(certificate: &CertificateDer<'_>) -> Box<[u8]> {
    Hash::digest(certificate).to_vec().into()
}

/// The hash of a signature by RSA-PSS, which its parameters name (RFC 4055).
fn hash_of_pss(signature: &AlgorithmIdentifierOwned) -> Option<String> {
    let parameters = signature.parameters.as_ref()?.to_der().ok()?;
    let read = RsaPssParams::from_der(&parameters).ok()?;
    Some(read.hash.oid.to_string())
}

/// A failure to encrypt a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsError {
    /// In words that follow "… : ".
    pub message: String,
    /// The hint.
    pub hint: Option<&'static str>,
}

impl TlsError {
    /// Without a hint.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }

    fn hinted(message: impl Into<String>, hint: &'static str) -> Self {
        Self {
            message: message.into(),
            hint: Some(hint),
        }
    }
}

fn explain(error: &rustls::Error) -> TlsError {
    match error {
        rustls::Error::InvalidCertificate(error) => explain_certificate(error),
        rustls::Error::AlertReceived(alert) => explain_alert(*alert),
        rustls::Error::PeerIncompatible(why) => TlsError::hinted(
            format!("client and server support no common TLS version or cipher ({why:?})"),
            "pgdyno supports TLS 1.2 and 1.3; see ssl_min_protocol_version here and on the server",
        ),
        rustls::Error::InvalidMessage(_) => TlsError::hinted(
            "its answer is not TLS",
            "is there a proxy in between that does not support TLS?",
        ),
        other => TlsError::new(other.to_string()),
    }
}

fn explain_certificate(error: &CertificateError) -> TlsError {
    use CertificateError as C;
    match error {
        C::UnknownIssuer => TlsError::hinted(
            "its certificate was issued by an authority that is not trusted here",
            "sslrootcert must name the certificate of the authority that issued the server's",
        ),
        C::Expired | C::ExpiredContext { .. } => TlsError::hinted(
            "its certificate has expired",
            "renew it; ssl_cert_file on the server names it",
        ),
        C::NotValidYet | C::NotValidYetContext { .. } => TlsError::hinted(
            "its certificate is not valid yet",
            "check the clocks of both machines",
        ),
        C::Revoked => TlsError::new("its certificate was revoked"),
        C::UnknownRevocationStatus => TlsError::hinted(
            "no list of revoked certificates of its issuer is in sslcrl",
            "put the lists of all issuers in the chain into one file",
        ),
        C::ExpiredRevocationList | C::ExpiredRevocationListContext { .. } => TlsError::hinted(
            "the list of revoked certificates in sslcrl is out of date",
            "have its issuer make a new one",
        ),
        C::BadSignature => TlsError::hinted(
            "its certificate is not signed by the authority that it names",
            "sslrootcert may hold an authority's certificate with the same name and another key",
        ),
        C::Other(other) if other.0.is::<WrongName>() => TlsError::hinted(
            format!("its certificate does not match: {other}"),
            "connect by a name that is in the certificate (hostaddr can hold the address), or use \
             sslmode=verify-ca",
        ),
        other => TlsError::new(format!("its certificate cannot be used: {other}")),
    }
}

fn explain_alert(alert: AlertDescription) -> TlsError {
    use AlertDescription as A;
    match alert {
        A::CertificateRequired => TlsError::hinted(
            "it requires a client certificate",
            "name one with sslcert and sslkey",
        ),
        A::HandshakeFailure => TlsError::hinted(
            "it ended the TLS handshake: it has no cipher or signature algorithm in common with \
             pgdyno, or it requires a client certificate",
            "its key may be RSA, ECDSA with P-256 or P-384, or Ed25519, and not P-521 or RSA-PSS \
             (openssl x509 -text shows it); a client certificate is named with sslcert and sslkey",
        ),
        A::UnknownCA | A::BadCertificate | A::DecryptError | A::UnsupportedCertificate => {
            TlsError::hinted(
                "it does not trust the client's certificate",
                "the server's ssl_ca_file must hold the authority that issued it",
            )
        }
        A::CertificateExpired => TlsError::new("the client's certificate has expired"),
        A::CertificateRevoked => TlsError::new("the client's certificate was revoked"),
        A::ProtocolVersion => TlsError::hinted(
            "client and server support no common TLS version",
            "see ssl_min_protocol_version here and on the server",
        ),
        A::NoApplicationProtocol => {
            TlsError::new("it does not support PostgreSQL's protocol over TLS")
        }
        other => TlsError::new(format!("it ended the TLS handshake ({other:?})")),
    }
}
