//! Verification of the server's certificate, by libpq's rules.
//!
//! Chains are checked by webpki. Three things that OpenSSL, and so libpq, takes and webpki does not
//! are common among PostgreSQL servers and are checked here: a server's own certificate that is
//! itself in the file of trusted ones, certificates of version 1 as the recipes in PostgreSQL's
//! manual make them with older versions of OpenSSL, and names in the subject instead of the
//! extension.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::files::Trusted;
use crate::error::LoadError;

/// Common name in a subject.
const COMMON_NAME: &str = "2.5.4.3";

/// Checks one host's certificate.
#[derive(Debug)]
pub(super) struct Verifier {
    chains: Option<Arc<Chains>>,
    /// The name that the certificate must be for.
    host: Option<String>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Checks who issued a certificate.
#[derive(Debug)]
pub(super) struct Chains {
    webpki: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
    revocation: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Chains {
    pub(super) fn new(trusted: Trusted, provider: Arc<CryptoProvider>) -> Result<Self, LoadError> {
        let algorithms = provider.signature_verification_algorithms;
        let revocation = !trusted.revoked.is_empty();
        let mut builder =
            WebPkiServerVerifier::builder_with_provider(Arc::new(trusted.store), provider);
        if revocation {
            builder = builder
                .with_crls(trusted.revoked)
                .enforce_revocation_expiration();
        }
        let webpki = builder.build().map_err(|error| {
            LoadError::new(
                "tls-files",
                format!("the trusted certificates of {}: {error}", trusted.from),
            )
        })?;
        Ok(Self {
            webpki,
            certificates: trusted.certificates,
            revocation,
            algorithms,
        })
    }

    fn check(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<(), Error> {
        let outcome = self
            .webpki
            .verify_server_cert(end_entity, intermediates, name, ocsp, now);
        match outcome {
            Ok(_) => Ok(()),
            // The chain was checked before the name, and names are checked by other rules here.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(()),
            Err(error) if self.check_directly(end_entity, now)? => {
                drop(error);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// True if the certificate is a trusted one itself, or one of version 1 that a trusted one
    /// issued.
    fn check_directly(
        &self,
        end_entity: &CertificateDer<'_>,
        now: UnixTime,
    ) -> Result<bool, Error> {
        let Ok(certificate) = Certificate::from_der(end_entity) else {
            return Ok(false);
        };
        let body = &certificate.tbs_certificate;
        let itself = self.certificates.iter().any(|known| known == end_entity)
            && body.issuer == body.subject;
        let issued = body.version == x509_cert::Version::V1
            && self
                .certificates
                .iter()
                .any(|issuer| self.is_issued_by(&certificate, issuer).unwrap_or(false));
        if !itself && (!issued || self.revocation) {
            return Ok(false);
        }
        let (from, until) = (
            body.validity.not_before.to_unix_duration(),
            body.validity.not_after.to_unix_duration(),
        );
        let now = Duration::from_secs(now.as_secs());
        if now < from {
            return Err(CertificateError::NotValidYet.into());
        }
        if now > until {
            return Err(CertificateError::Expired.into());
        }
        Ok(true)
    }

    fn is_issued_by(&self, certificate: &Certificate, issuer: &CertificateDer<'_>) -> Option<bool> {
        let issuer = Certificate::from_der(issuer).ok()?;
        if issuer.tbs_certificate.subject != certificate.tbs_certificate.issuer {
            return Some(false);
        }
        let algorithm = content(&certificate.signature_algorithm.to_der().ok()?)?.to_vec();
        let message = certificate.tbs_certificate.to_der().ok()?;
        let signature = certificate.signature.as_bytes()?;
        let valid = self
            .algorithms
            .all
            .iter()
            .filter(|known| known.signature_alg_id().as_ref() == algorithm)
            .any(|known| verifies(*known, &issuer, &message, signature));
        Some(valid)
    }
}

type Algorithm = dyn rustls::pki_types::SignatureVerificationAlgorithm;

/// True if the key of `signer` made this signature.
fn verifies(algorithm: &Algorithm, signer: &Certificate, message: &[u8], signature: &[u8]) -> bool {
    let key = &signer.tbs_certificate.subject_public_key_info;
    let Ok(kind) = key.algorithm.to_der() else {
        return false;
    };
    let (Some(kind), Some(bits)) = (content(&kind), key.subject_public_key.as_bytes()) else {
        return false;
    };
    algorithm.public_key_alg_id().as_ref() == kind
        && algorithm.verify_signature(bits, message, signature).is_ok()
}

/// Content of a short DER sequence, the form in which rustls names algorithms.
fn content(sequence: &[u8]) -> Option<&[u8]> {
    match sequence {
        [0x30, length, content @ ..] if usize::from(*length) == content.len() => Some(content),
        _ => None,
    }
}

impl Verifier {
    /// `host` is the name that must be in the certificate, if any must.
    pub(super) fn new(
        chains: Option<Arc<Chains>>,
        host: Option<String>,
        provider: &CryptoProvider,
    ) -> Self {
        Self {
            chains,
            host,
            algorithms: provider.signature_verification_algorithms,
        }
    }

    /// The signature of a handshake by a certificate that webpki does not read.
    fn check_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
        error: Error,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Error::InvalidCertificate(CertificateError::Other(_)) = &error else {
            return Err(error);
        };
        let Ok(signer) = Certificate::from_der(certificate) else {
            return Err(error);
        };
        let usable = self
            .algorithms
            .mapping
            .iter()
            .filter(|(scheme, _)| *scheme == signed.scheme)
            .flat_map(|(_, algorithms)| *algorithms);
        for algorithm in usable {
            if verifies(*algorithm, &signer, message, signed.signature()) {
                return Ok(HandshakeSignatureValid::assertion());
            }
        }
        Err(CertificateError::BadSignature.into())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(chains) = &self.chains {
            chains.check(end_entity, intermediates, server_name, ocsp_response, now)?;
        }
        if let Some(host) = &self.host {
            check_name(end_entity, host)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
            .or_else(|error| self.check_signature(message, cert, dss, error))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
            .or_else(|error| self.check_signature(message, cert, dss, error))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The names of a certificate, for a message.
#[derive(Debug)]
pub(super) struct WrongName {
    /// The name that it should be for.
    pub host: String,
    /// Those that it is for.
    pub names: Vec<String>,
}

impl std::fmt::Display for WrongName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.names[..] {
            [] => write!(f, "it names no host, and must name \"{}\"", self.host),
            names => write!(
                f,
                "it is for {}, not for \"{}\"",
                names.join(", "),
                self.host
            ),
        }
    }
}

impl std::error::Error for WrongName {}

/// The certificate must be for this host: one of its alternative names, or, where it has none of
/// the kind, the subject's common name.
fn check_name(end_entity: &CertificateDer<'_>, host: &str) -> Result<(), Error> {
    let certificate =
        Certificate::from_der(end_entity).map_err(|_| CertificateError::BadEncoding)?;
    let address: Option<IpAddr> = host.parse().ok();
    let (mut names, mut look_at_subject) = (Vec::new(), true);
    for name in alternative_names(&certificate) {
        match name {
            GeneralName::DnsName(pattern) => {
                if matches_name(pattern.as_str(), host) {
                    return Ok(());
                }
                look_at_subject &= address.is_some();
                names.push(format!("\"{}\"", pattern.as_str()));
            }
            GeneralName::IpAddress(bytes) => {
                let named = as_address(bytes.as_bytes());
                if named.is_some() && named == address {
                    return Ok(());
                }
                look_at_subject &= address.is_none();
                names.extend(named.map(|named| named.to_string()));
            }
            _ => {}
        }
    }
    if look_at_subject && let Some(name) = common_name(&certificate) {
        if matches_name(&name, host) {
            return Ok(());
        }
        names.push(format!("\"{name}\""));
    }
    let wrong = WrongName {
        host: host.to_owned(),
        names,
    };
    Err(CertificateError::Other(rustls::OtherError(Arc::new(wrong))).into())
}

fn alternative_names(certificate: &Certificate) -> Vec<GeneralName> {
    match certificate.tbs_certificate.get::<SubjectAltName>() {
        Ok(Some((_, names))) => names.0,
        _ => Vec::new(),
    }
}

fn common_name(certificate: &Certificate) -> Option<String> {
    let subject = &certificate.tbs_certificate.subject;
    let attribute = subject
        .0
        .iter()
        .flat_map(|part| part.0.iter())
        .find(|attribute| attribute.oid.to_string() == COMMON_NAME)?;
    let name = std::str::from_utf8(attribute.value.value()).ok()?;
    (!name.contains('\0')).then(|| name.to_owned())
}

fn as_address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(four.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

/// A star stands for one part of a name, the first.
fn matches_name(pattern: &str, host: &str) -> bool {
    if pattern.eq_ignore_ascii_case(host) {
        return true;
    }
    match (pattern.strip_prefix("*."), host.split_once('.')) {
        (Some(pattern), Some((_, rest))) => pattern.eq_ignore_ascii_case(rest),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::matches_name;

    #[test]
    fn a_star_is_one_part_of_a_name() {
        for (pattern, host, wanted) in [
            ("db.example.com", "DB.example.com", true),
            ("*.example.com", "db.example.com", true),
            ("*.example.com", "a.db.example.com", false),
            ("*.example.com", "example.com", false),
            ("d*.example.com", "db.example.com", false),
            ("*", "db", false),
            ("10.0.0.1", "10.0.0.1", true),
        ] {
            assert_eq!(matches_name(pattern, host), wanted, "{pattern} {host}");
        }
    }
}
