//! The server that requests go to, and where a redirect on it leads (RFC 3986, 5.2).

use crate::encode_link;

/// Scheme, host and port of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// True for https.
    pub secure: bool,
    /// Name or address; an IPv6 address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Origin {
    /// The value of the header Host.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        if self.port == self.usual_port() {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }

    fn usual_port(&self) -> u16 {
        if self.secure { 443 } else { 80 }
    }

    /// Puts into `target` where `location` leads from there; false, and nothing is changed, if that
    /// is on another server.
    #[must_use]
    pub fn follow(&self, location: &[u8], target: &mut Vec<u8>) -> bool {
        let Some(rest) = self.on_this_server(location) else {
            return false;
        };
        let mut joined = Vec::with_capacity(rest.len() + target.len());
        let path_end = |url: &[u8]| memchr::memchr(b'?', url).unwrap_or(url.len());
        let is_whole = rest.len() < location.len();
        match rest.first() {
            Some(b'/') => joined.extend_from_slice(rest),
            _ if is_whole => {
                joined.push(b'/');
                joined.extend_from_slice(rest);
            }
            Some(b'?') => {
                joined.extend_from_slice(&target[..path_end(target)]);
                joined.extend_from_slice(rest);
            }
            None | Some(b'#') => joined.extend_from_slice(target),
            _ => {
                let path = &target[..path_end(target)];
                let folder = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
                joined.extend_from_slice(&path[..folder]);
                joined.extend_from_slice(rest);
            }
        }
        target.clear();
        encode_link(&without_dots(&joined), target);
        true
    }

    /// The part after scheme and authority, if they are those of this server or are not there.
    fn on_this_server<'a>(&self, location: &'a [u8]) -> Option<&'a [u8]> {
        let scheme: &[u8] = if self.secure { b"https:" } else { b"http:" };
        let after = match location.get(..scheme.len()) {
            Some(found) if found.eq_ignore_ascii_case(scheme) => &location[scheme.len()..],
            _ if has_scheme(location) => return None,
            _ => location,
        };
        let Some(authority) = after.strip_prefix(b"//") else {
            return (after.len() == location.len()).then_some(location);
        };
        let end = authority
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?' | b'#'))
            .unwrap_or(authority.len());
        let named = std::str::from_utf8(&authority[..end]).ok()?;
        let usual = format!(":{}", self.usual_port());
        let named = named.strip_suffix(usual.as_str()).unwrap_or(named);
        named
            .eq_ignore_ascii_case(&self.authority())
            .then_some(&authority[end..])
    }
}

fn has_scheme(location: &[u8]) -> bool {
    let end = location
        .iter()
        .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')));
    end.is_some_and(|end| end > 0 && location[end] == b':' && location[0].is_ascii_alphabetic())
}

/// A target without the segments `.` and `..` in its path.
fn without_dots(target: &[u8]) -> Vec<u8> {
    let end = target
        .iter()
        .position(|byte| matches!(byte, b'?' | b'#'))
        .unwrap_or(target.len());
    let (path, rest) = target.split_at(end);
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut segments = path.split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"." => {}
            b".." => {
                kept.pop();
            }
            segment => {
                kept.push(segment);
                continue;
            }
        }
        if last {
            kept.push(b"");
        }
    }
    let mut clean = vec![b'/'];
    clean.extend_from_slice(&kept.join(&b'/'));
    clean.extend_from_slice(rest);
    clean
}
