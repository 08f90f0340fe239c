//! Several servers, the addresses of each, and the order in which one connection tries them.
//!
//! The order is libpq's: host by host, address by address; each first with the encryption that is
//! preferred. Names are looked up when the load begins, and again in the background when
//! connections fail, so that a name that was moved to another server is followed.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::config::{HostConfig, LoadBalance, SessionAttrs, SslMode, TargetConfig};
use crate::script::Rng;
use crate::sys::lock;
use crate::sys::monotonic_ns;

/// Names are looked up again at most this often.
const LOOK_UP_NS: u64 = 1_000_000_000;

/// Address of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket's path.
    Unix(PathBuf),
    /// TCP.
    Tcp(SocketAddr),
}

impl Address {
    /// True if it is in the file system.
    #[must_use]
    pub fn is_unix(&self) -> bool {
        matches!(self, Self::Unix(_))
    }
}

/// True if a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// It is not.
    Clear,
    /// With TLS.
    Tls,
}

/// The servers of a load.
pub struct Hosts {
    hosts: Vec<HostConfig>,
    attrs: SessionAttrs,
    balance: LoadBalance,
    sslmode: SslMode,
    found: Arc<Mutex<Arc<Found>>>,
    looked_up_ns: AtomicU64,
}

/// The addresses of each host, or why there are none.
type Found = Vec<Result<Vec<Address>, String>>;

impl Hosts {
    /// Looks the names up.
    #[must_use]
    pub fn new(config: &TargetConfig) -> Self {
        let found = config.hosts.iter().map(look_up).collect();
        Self {
            hosts: config.hosts.clone(),
            attrs: config.target_session_attrs,
            balance: config.load_balance_hosts,
            sslmode: config.sslmode,
            found: Arc::new(Mutex::new(Arc::new(found))),
            looked_up_ns: AtomicU64::new(monotonic_ns()),
        }
    }

    /// Looks the names up again, in the background, if that is long ago. What cannot be found any
    /// more keeps the addresses that it had.
    pub fn look_up_again(&self) {
        let is_name = |host: &HostConfig| {
            let place = host.hostaddr.as_ref().unwrap_or(&host.host);
            !is_socket(place) && place.parse::<IpAddr>().is_err()
        };
        let (now_ns, last_ns) = (monotonic_ns(), self.looked_up_ns.load(Ordering::Relaxed));
        if now_ns.saturating_sub(last_ns) < LOOK_UP_NS || !self.hosts.iter().any(is_name) {
            return;
        }
        let first = self.looked_up_ns.compare_exchange(
            last_ns,
            now_ns,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if first.is_err() {
            return;
        }
        let (hosts, shared) = (self.hosts.clone(), Arc::clone(&self.found));
        // Without a thread the addresses stay what they are.
        let _ = std::thread::Builder::new()
            .name("pgdyno-names".into())
            .spawn(move || {
                let mut found: Found = hosts.iter().map(look_up).collect();
                let mut shared = lock(&shared);
                for (new, old) in found.iter_mut().zip(shared.iter()) {
                    if new.is_err() {
                        new.clone_from(old);
                    }
                }
                *shared = Arc::new(found);
            });
    }

    /// A way through the servers, from the start. `rng` mixes it where that is wanted.
    #[must_use]
    pub fn route(&self, rng: &mut Rng) -> Route {
        let found = Arc::clone(&lock(&self.found));
        let mut order: Vec<(usize, usize)> = Vec::new();
        let mut numbers: Vec<usize> = (0..self.hosts.len()).collect();
        if self.balance == LoadBalance::Random {
            shuffle(&mut numbers, rng);
        }
        for host in numbers {
            let count = found[host].as_ref().map_or(0, Vec::len);
            let mut addresses: Vec<usize> = (0..count).collect();
            if self.balance == LoadBalance::Random {
                shuffle(&mut addresses, rng);
            }
            order.extend(addresses.into_iter().map(|address| (host, address)));
        }
        let mut route = Route {
            found,
            order,
            at: 0,
            sslmode: self.sslmode,
            encryption: Encryption::Clear,
            tried_both: false,
            attrs: self.attrs,
        };
        route.begin_place();
        route
    }

    /// Reasons why no address is known, for the hosts without one.
    #[must_use]
    pub fn unknown(&self) -> Vec<String> {
        let found = lock(&self.found);
        let pairs = self.hosts.iter().zip(found.iter());
        pairs
            .filter_map(|(host, found)| {
                let why = found.as_ref().err()?;
                Some(format!("cannot find host {:?}: {why}", host.host))
            })
            .collect()
    }

    /// A place in words.
    #[must_use]
    pub fn describe(&self, host: usize, address: &Address) -> String {
        match address {
            Address::Unix(path) => format!("the socket {}", path.display()),
            Address::Tcp(address) if self.hosts[host].host == address.ip().to_string() => {
                address.to_string()
            }
            Address::Tcp(address) => format!("{} ({address})", self.hosts[host].host),
        }
    }
}

fn shuffle(numbers: &mut [usize], rng: &mut Rng) {
    for last in (1..numbers.len()).rev() {
        let most = i64::try_from(last).unwrap_or(i64::MAX);
        let other = usize::try_from(rng.range(0, most)).unwrap_or(0);
        numbers.swap(last, other);
    }
}

fn is_socket(place: &str) -> bool {
    place.starts_with('/')
}

fn look_up(host: &HostConfig) -> Result<Vec<Address>, String> {
    let place = host.hostaddr.as_ref().unwrap_or(&host.host);
    if is_socket(place) {
        let path = PathBuf::from(place).join(format!(".s.PGSQL.{}", host.port));
        return Ok(vec![Address::Unix(path)]);
    }
    if host.hostaddr.is_some() && place.parse::<IpAddr>().is_err() {
        return Err(format!("hostaddr {place:?} is not an address"));
    }
    let found: Vec<Address> = (place.as_str(), host.port)
        .to_socket_addrs()
        .map_err(|error| error.to_string())?
        .map(Address::Tcp)
        .collect();
    if found.is_empty() {
        return Err("it has no address".into());
    }
    Ok(found)
}

/// Progress of a connection through the servers.
#[derive(Debug, Clone)]
pub struct Route {
    found: Arc<Found>,
    /// Hosts and their addresses, by number.
    order: Vec<(usize, usize)>,
    at: usize,
    sslmode: SslMode,
    encryption: Encryption,
    tried_both: bool,
    attrs: SessionAttrs,
}

impl Route {
    /// Number and address of the host whose turn it is, or `None` after the last.
    #[must_use]
    pub fn place(&self) -> Option<(usize, &Address)> {
        let (host, address) = *self.order.get(self.at)?;
        Some((host, self.found[host].as_ref().ok()?.get(address)?))
    }

    /// The encryption whose turn it is.
    #[must_use]
    pub fn encryption(&self) -> Encryption {
        self.encryption
    }

    /// The server does not encrypt: whether that will do as well, on the same connection.
    pub fn go_on_in_clear(&mut self) -> bool {
        self.sslmode == SslMode::Prefer && self.next_encryption()
    }

    /// Which server will do.
    #[must_use]
    pub fn attrs(&self) -> SessionAttrs {
        self.attrs
    }

    /// The same place with the other encryption; false if that was tried, or will not do.
    pub fn next_encryption(&mut self) -> bool {
        let other = match (self.sslmode, self.encryption) {
            (SslMode::Allow, Encryption::Clear) => Encryption::Tls,
            (SslMode::Prefer, Encryption::Tls) => Encryption::Clear,
            _ => return false,
        };
        if self.tried_both || self.place().is_none_or(|(_, address)| address.is_unix()) {
            return false;
        }
        self.tried_both = true;
        self.encryption = other;
        true
    }

    /// The next address, of this host or the next; false after the last.
    pub fn next_address(&mut self) -> bool {
        self.at += 1;
        self.begin_or_begin_again()
    }

    /// The next host; false after the last.
    pub fn next_host(&mut self) -> bool {
        let host = self.order.get(self.at).map(|(host, _)| *host);
        while self.order.get(self.at).map(|(host, _)| *host) == host && self.at < self.order.len() {
            self.at += 1;
        }
        self.begin_or_begin_again()
    }

    /// Begin, or try all hosts once more for any server if a standby is only preferred.
    fn begin_or_begin_again(&mut self) -> bool {
        if self.at >= self.order.len() && self.attrs == SessionAttrs::PreferStandby {
            self.attrs = SessionAttrs::Any;
            self.at = 0;
        }
        self.begin_place();
        self.at < self.order.len()
    }

    fn begin_place(&mut self) {
        self.tried_both = false;
        let unix = self.place().is_none_or(|(_, address)| address.is_unix());
        self.encryption = match self.sslmode {
            SslMode::Disable | SslMode::Allow => Encryption::Clear,
            _ if unix => Encryption::Clear,
            _ => Encryption::Tls,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(target: &str) -> Hosts {
        let json = format!(r#"{{"user": "u", "database": "d", {target}}}"#);
        Hosts::new(&serde_json::from_str(&json).expect("a target"))
    }

    fn ports(route: &mut Route) -> Vec<u16> {
        let mut ports = Vec::new();
        while let Some((_, Address::Tcp(address))) = route.place() {
            ports.push(address.port());
            if !route.next_address() {
                break;
            }
        }
        ports
    }

    const THREE: &str = r#""hosts": [{"host": "127.0.0.1", "port": 1}, {"host": "a.invalid",
        "hostaddr": "127.0.0.1", "port": 2}, {"host": "127.0.0.1", "port": 3}]"#;

    #[test]
    fn hosts_are_tried_in_order_or_mixed() {
        let mut rng = Rng::new(1);
        assert_eq!(ports(&mut hosts(THREE).route(&mut rng)), [1, 2, 3]);
        let mixed = hosts(&format!(r#"{THREE}, "load_balance_hosts": "random""#));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..50 {
            let mut order = ports(&mut mixed.route(&mut rng));
            seen.insert(order.clone());
            order.sort_unstable();
            assert_eq!(order, [1, 2, 3]);
        }
        assert_eq!(seen.len(), 6);
    }

    #[test]
    fn a_preferred_standby_is_looked_for_once_then_any_server_will_do() {
        let target = format!(r#"{THREE}, "target_session_attrs": "prefer-standby""#);
        let mut route = hosts(&target).route(&mut Rng::new(1));
        for _ in 0..2 {
            assert_eq!(route.attrs(), SessionAttrs::PreferStandby);
            assert!(route.next_host());
        }
        assert!(route.next_host());
        assert_eq!(route.attrs(), SessionAttrs::Any);
        assert_eq!(ports(&mut route), [1, 2, 3]);
    }

    #[test]
    fn each_place_is_tried_with_the_encryptions_that_will_do() {
        let tried = |mode: &str| {
            let target = format!(r#"{THREE}, "sslmode": "{mode}""#);
            let mut route = hosts(&target).route(&mut Rng::new(1));
            let first = route.encryption();
            let second = route.next_encryption().then(|| route.encryption());
            assert!(!route.next_encryption());
            assert!(route.next_address());
            assert_eq!(route.encryption(), first);
            (first, second)
        };
        use Encryption::{Clear, Tls};
        assert_eq!(tried("disable"), (Clear, None));
        assert_eq!(tried("allow"), (Clear, Some(Tls)));
        assert_eq!(tried("prefer"), (Tls, Some(Clear)));
        assert_eq!(tried("verify-full"), (Tls, None));
        let socket = r#""hosts": [{"host": "/tmp", "port": 1}], "sslmode": "verify-full""#;
        let mut route = hosts(socket).route(&mut Rng::new(1));
        assert_eq!(route.encryption(), Clear);
        assert!(!route.next_encryption());
    }

    #[test]
    fn a_host_without_an_address_is_passed_over() {
        let target = r#""hosts": [{"host": "x", "hostaddr": "nonsense", "port": 1},
            {"host": "127.0.0.1", "port": 2}]"#;
        let hosts = hosts(target);
        assert_eq!(ports(&mut hosts.route(&mut Rng::new(1))), [2]);
        assert_eq!(hosts.unknown().len(), 1);
    }
}
