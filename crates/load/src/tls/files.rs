//! The files that TLS needs, found and checked by libpq's rules: trusted certificates, revoked
//! ones, the client's certificate and its private key.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pkcs8::der::Decode;
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs8KeyDer,
};

use crate::config::{SslCertMode, SslMode, TargetConfig};
use crate::error::LoadError;
use crate::socket::reason;

/// The certificates that the client trusts.
pub(super) struct Trusted {
    /// For building chains.
    pub store: RootCertStore,
    /// The same as they are in the file; none of the system's.
    pub certificates: Vec<CertificateDer<'static>>,
    /// Revoked certificates; none if they are not to be checked.
    pub revoked: Vec<CertificateRevocationListDer<'static>>,
    /// Their source, for messages.
    pub from: String,
}

/// The certificates that are trusted, or none if the server's is not to be checked: with
/// `sslmode` require and below there need not be any.
pub(super) fn trusted(config: &TargetConfig) -> Result<Option<Trusted>, LoadError> {
    if config.sslrootcert.as_deref() == Some("system") {
        return of_the_system().map(Some);
    }
    let path = chosen(config.sslrootcert.as_ref(), "root.crt");
    let Some(path) = path.filter(|path| path.exists()) else {
        return if config.sslmode >= SslMode::VerifyCa {
            Err(no_root(config))
        } else {
            Ok(None)
        };
    };
    let certificates = read_certificates(&path)?;
    let mut store = RootCertStore::empty();
    // One that cannot be used for a chain may still be the server's own.
    store.add_parsable_certificates(certificates.iter().cloned());
    Ok(Some(Trusted {
        store,
        certificates,
        revoked: revoked(config)?,
        from: path.display().to_string(),
    }))
}

fn no_root(config: &TargetConfig) -> LoadError {
    let wanted = config
        .sslrootcert
        .clone()
        .or_else(|| chosen(None, "root.crt").map(|path| path.display().to_string()));
    LoadError::new(
        "tls-files",
        format!(
            "the file of trusted certificates {} does not exist, and sslmode {} needs it",
            wanted.unwrap_or_default(),
            config.sslmode.as_str()
        ),
    )
    .with_hint(
        "name the certificate authority's file with sslrootcert, use the system's trusted \
         certificates with sslrootcert=system, or use sslmode=require, which checks no certificate",
    )
}

fn of_the_system() -> Result<Trusted, LoadError> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        return Err(LoadError::new(
            "tls-files",
            "sslrootcert is \"system\", and the system has no trusted certificates",
        )
        .with_hint("install them (the package is called ca-certificates), or name a file"));
    }
    Ok(Trusted {
        store,
        certificates: Vec::new(),
        revoked: Vec::new(),
        from: "the system".into(),
    })
}

fn revoked(config: &TargetConfig) -> Result<Vec<CertificateRevocationListDer<'static>>, LoadError> {
    let path = chosen(config.sslcrl.as_ref(), "root.crl");
    match path {
        Some(path) if config.sslcrl.is_some() || path.exists() => {
            let lists = CertificateRevocationListDer::pem_file_iter(&path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| unreadable("the list of revoked certificates", &path, &error))?;
            if lists.is_empty() {
                return Err(empty("revoked certificates", "a list of them", &path));
            }
            Ok(lists)
        }
        _ => Ok(Vec::new()),
    }
}

/// A certificate of the client's own.
pub(super) struct Own {
    /// With those that issued it.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its private key.
    pub key: PrivateKeyDer<'static>,
}

/// The client's certificate, if it has one.
pub(super) fn own(config: &TargetConfig) -> Result<Option<Own>, LoadError> {
    if config.sslcertmode == SslCertMode::Disable {
        return Ok(None);
    }
    let path = chosen(config.sslcert.as_ref(), "postgresql.crt");
    let Some(path) = path.filter(|path| path.exists()) else {
        return Ok(None);
    };
    let key_path = chosen(config.sslkey.as_ref(), "postgresql.key").unwrap_or_default();
    Ok(Some(Own {
        chain: read_certificates(&path)?,
        key: read_key(&key_path, &path, config.sslpassword.as_deref())?,
    }))
}

fn read_key(
    path: &Path,
    certificate: &Path,
    password: Option<&str>,
) -> Result<PrivateKeyDer<'static>, LoadError> {
    if path.to_string_lossy().starts_with("engine:")
        || path.to_string_lossy().starts_with("pkcs11:")
    {
        return Err(LoadError::new(
            "tls-files",
            "sslkey names a key in a device, and pgdyno reads keys from files only",
        ));
    }
    if !path.exists() {
        return Err(LoadError::new(
            "tls-files",
            format!(
                "the client certificate {} exists, but not its private key {}",
                certificate.display(),
                path.display()
            ),
        )
        .with_hint("name the key's file with sslkey"));
    }
    check_permissions(path)?;
    let text = std::fs::read(path)
        .map_err(|error| unreadable("the private key", path, &pem::Error::Io(error)))?;
    if let Some(der) = section(&text, "ENCRYPTED PRIVATE KEY") {
        return decrypt(&der, path, password);
    }
    if contains(&text, b"Proc-Type: 4,ENCRYPTED") {
        return Err(LoadError::new(
            "tls-files",
            format!(
                "the private key {} is encrypted in OpenSSL's traditional format, which pgdyno \
                 does not read",
                path.display()
            ),
        )
        .with_hint(format!(
            "openssl pkcs8 -topk8 -in {0} -out {0}.new converts it to PKCS #8",
            path.display()
        )));
    }
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|error| unreadable("the private key", path, &error))
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|part| part == wanted)
}

/// The content of the first section of a PEM file with this label.
fn section(text: &[u8], label: &str) -> Option<Vec<u8>> {
    let begin = format!("-----BEGIN {label}-----");
    let text = std::str::from_utf8(text).ok()?;
    let start = text.find(&begin)?;
    let (found, document) = pkcs8::Document::from_pem(text[start..].trim_end()).ok()?;
    (found == label).then(|| document.as_bytes().to_vec())
}

fn decrypt(
    der: &[u8],
    path: &Path,
    password: Option<&str>,
) -> Result<PrivateKeyDer<'static>, LoadError> {
    let wrong = |what: &str| {
        LoadError::new(
            "tls-files",
            format!(
                "the private key {} is encrypted, and {what}",
                path.display()
            ),
        )
    };
    let Some(password) = password else {
        return Err(wrong("no sslpassword was given").with_hint("give it with sslpassword"));
    };
    let key = pkcs8::EncryptedPrivateKeyInfo::from_der(der)
        .map_err(|error| wrong(&format!("its content is damaged: {error}")))?
        .decrypt(password)
        .map_err(|_| {
            wrong("sslpassword does not decrypt it")
                .with_hint("check the password; pgdyno reads PBES2 with AES only")
        })?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}

/// Checks that no other user can read the key; a group may read a key owned by root.
fn check_permissions(path: &Path) -> Result<(), LoadError> {
    let found = std::fs::metadata(path)
        .map_err(|error| unreadable("the private key", path, &pem::Error::Io(error)))?;
    let forbidden = if found.uid() == 0 { 0o037 } else { 0o077 };
    if found.mode() & forbidden == 0 {
        return Ok(());
    }
    Err(LoadError::new(
        "tls-files",
        format!("other users may read the private key {}", path.display()),
    )
    .with_hint(format!(
        "chmod 0600 {}; a key owned by root may have 0640",
        path.display()
    )))
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable("the certificate", path, &error))?;
    if certificates.is_empty() {
        return Err(empty("certificates", "one", path));
    }
    Ok(certificates)
}

fn empty(what: &str, one: &str, path: &Path) -> LoadError {
    LoadError::new(
        "tls-files",
        format!("the file of {what} {} contains none", path.display()),
    )
    .with_hint(format!("{one} in PEM format begins with -----BEGIN …"))
}

fn unreadable(what: &str, path: &Path, error: &pem::Error) -> LoadError {
    let why = match error {
        pem::Error::Io(error) => reason(error),
        error => error.to_string(),
    };
    LoadError::new(
        "tls-files",
        format!("cannot read {what} {}: {why}", path.display()),
    )
}

/// The file that was named, or else the one in `~/.postgresql`.
fn chosen(named: Option<&String>, default: &str) -> Option<PathBuf> {
    match named {
        Some(path) if !path.is_empty() => Some(PathBuf::from(path)),
        _ => std::env::home_dir().map(|home| home.join(".postgresql").join(default)),
    }
}
