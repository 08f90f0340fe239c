//! Cookies of one client on one server (RFC 6265), as browsers have them.

use std::time::{Duration, SystemTime};

/// Most cookies that are kept; further ones replace the oldest.
const COOKIES_MAX: usize = 50;
/// Longest cookie, name and value together.
const COOKIE_BYTES_MAX: usize = 4096;

#[derive(Debug, Clone, Default)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    path: Vec<u8>,
    secure: bool,
    expires: Option<SystemTime>,
}

/// The cookies of one client. Memory is kept for the next ones.
#[derive(Debug, Clone, Default)]
pub struct Jar {
    cookies: Vec<Cookie>,
}

/// A Set-Cookie header, read.
struct Given<'a> {
    name: &'a [u8],
    value: &'a [u8],
    path: Option<&'a [u8]>,
    domain: Option<&'a [u8]>,
    secure: bool,
    expires: Option<SystemTime>,
}

impl Jar {
    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cookies.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.cookies.clear();
    }

    /// Takes what a header Set-Cookie says, in the response to a request for `target` of `host`.
    pub fn set(&mut self, header: &[u8], host: &str, target: &[u8], now: SystemTime) {
        let Some(given) = Given::read(header, now) else {
            return;
        };
        let elsewhere = given.domain.is_some_and(|domain| !matches(host, domain));
        if elsewhere || given.name.len() + given.value.len() > COOKIE_BYTES_MAX {
            return;
        }
        let path = given.path.unwrap_or_else(|| folder(target));
        let is_it = |cookie: &Cookie| cookie.name == given.name && cookie.path == path;
        let place = self.cookies.iter().position(is_it);
        if given.expires.is_some_and(|expires| expires <= now) {
            if let Some(place) = place {
                self.cookies.remove(place);
            }
            return;
        }
        let place = place.unwrap_or_else(|| {
            if self.cookies.len() >= COOKIES_MAX {
                self.cookies.remove(0);
            }
            self.cookies.push(Cookie::default());
            self.cookies.len() - 1
        });
        let cookie = &mut self.cookies[place];
        for (to, from) in [
            (&mut cookie.name, given.name),
            (&mut cookie.value, given.value),
            (&mut cookie.path, path),
        ] {
            to.clear();
            to.extend_from_slice(from);
        }
        cookie.secure = given.secure;
        cookie.expires = given.expires;
    }

    /// Appends the header Cookie of a request for `target`, if there are cookies for it.
    pub fn write(&self, target: &[u8], secure: bool, now: SystemTime, out: &mut Vec<u8>) {
        let path = path_of(target);
        let mut separator: &[u8] = b"Cookie: ";
        for cookie in &self.cookies {
            let expired = cookie.expires.is_some_and(|expires| expires <= now);
            if expired || (cookie.secure && !secure) || !is_below(path, &cookie.path) {
                continue;
            }
            out.extend_from_slice(separator);
            out.extend_from_slice(&cookie.name);
            out.push(b'=');
            out.extend_from_slice(&cookie.value);
            separator = b"; ";
        }
        if separator == b"; " {
            out.extend_from_slice(b"\r\n");
        }
    }
}

impl<'a> Given<'a> {
    fn read(header: &'a [u8], now: SystemTime) -> Option<Self> {
        let mut parts = header.split(|byte| *byte == b';');
        let (name, value) = pair(parts.next()?);
        if name.is_empty() {
            return None;
        }
        let mut given = Self {
            name,
            value: value?,
            path: None,
            domain: None,
            secure: false,
            expires: None,
        };
        let mut age = None;
        for part in parts {
            let (attribute, value) = pair(part);
            let is = |name: &[u8]| attribute.eq_ignore_ascii_case(name);
            let value = value.unwrap_or_default();
            if is(b"path") {
                given.path = value.starts_with(b"/").then_some(value);
            } else if is(b"domain") {
                given.domain = (!value.is_empty()).then_some(value);
            } else if is(b"secure") {
                given.secure = true;
            } else if is(b"max-age") {
                age = seconds(value);
            } else if is(b"expires") {
                given.expires = date(value);
            }
        }
        if let Some(age) = age {
            // Beyond the end of time it never expires.
            given.expires = now.checked_add(age);
        }
        Some(given)
    }
}

fn pair(part: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'=', part) {
        Some(at) => (part[..at].trim_ascii(), Some(part[at + 1..].trim_ascii())),
        None => (part.trim_ascii(), None),
    }
}

/// Max-Age; one that is not positive is over at once.
fn seconds(value: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?;
    let number: i128 = text.parse().ok()?;
    let number = u64::try_from(number.max(0)).unwrap_or(u64::MAX);
    Some(Duration::from_secs(number))
}

/// Expires, also with dashes in the date as older servers write it.
fn date(value: &[u8]) -> Option<SystemTime> {
    let text = std::str::from_utf8(value).ok()?;
    let plain = || httpdate::parse_http_date(&text.replace('-', " ")).ok();
    httpdate::parse_http_date(text).ok().or_else(plain)
}

/// True if a host is this domain, or a part of it.
fn matches(host: &str, domain: &[u8]) -> bool {
    let domain = domain.strip_prefix(b".").unwrap_or(domain);
    let (host, count) = (host.as_bytes(), domain.len());
    let Some(start) = host.len().checked_sub(count) else {
        return false;
    };
    let ends = host[start..].eq_ignore_ascii_case(domain);
    ends && (start == 0 || host[start - 1] == b'.')
}

fn path_of(target: &[u8]) -> &[u8] {
    &target[..memchr::memchr(b'?', target).unwrap_or(target.len())]
}

/// The path of a cookie that names none: that of the request, up to its last slash.
fn folder(target: &[u8]) -> &[u8] {
    let path = path_of(target);
    match memchr::memrchr(b'/', path) {
        Some(slash) if slash > 0 => &path[..slash],
        _ => b"/",
    }
}

/// True if a cookie of this path is for a request of that one.
fn is_below(path: &[u8], of_cookie: &[u8]) -> bool {
    path.strip_prefix(of_cookie).is_some_and(|rest| {
        rest.is_empty() || of_cookie.ends_with(b"/") || rest.first() == Some(&b'/')
    })
}
