//! A connection by HTTP: the request under way and what came of its response.

use std::time::SystemTime;

use pgdyno_http::{Event, Head, HttpError, Reader};

use crate::client::Client;
use crate::plan::HttpPlan;
use crate::script::{From, Request};

/// Redirects that are followed one after the other.
pub const HOPS_MAX: u32 = 10;
/// A buffer for bodies above this is given back.
const KEPT_CAPACITY_BYTES: usize = 64 << 10;
/// Name of this program in requests.
const AGENT: &[u8] = concat!("pgdyno/", env!("CARGO_PKG_VERSION")).as_bytes();

/// A connection by HTTP.
#[derive(Debug, Default)]
pub struct Exchange {
    reader: Reader,
    /// Requests that were sent over it.
    pub requests: u64,
    /// Time of the first byte of the response; 0 before that.
    pub first_byte_ns: u64,
    /// Status of the response; 0 before its head.
    pub status: u16,
    /// Target of the request; then, where a redirect leads.
    pub target: Vec<u8>,
    /// Redirects followed since the script's request.
    pub hops: u32,
    /// Destination of the response, if the script follows it.
    pub leads: Leads,
    /// The body of the response, if the script looks at it.
    pub body: Vec<u8>,
    body_is_cut: bool,
    /// Headers that the script takes are there, one bit for each value that it takes.
    found: u64,
    /// The request was sent again because the server had closed the connection.
    pub sent_again: bool,
}

/// Destination of a response.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Leads {
    /// Nowhere.
    #[default]
    Nowhere,
    /// To [`Exchange::target`].
    Here,
    /// To another server.
    Elsewhere,
}

/// The end of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// True if the connection can be used again.
    pub keep_alive: bool,
    /// True if the server closes it.
    pub by_server: bool,
}

/// A client that takes in a response, and the request that it is to.
pub struct Taking<'a> {
    /// The client.
    pub client: &'a mut Client,
    /// Its request.
    pub request: &'a Request,
    /// Its server.
    pub http: &'a HttpPlan,
}

impl Exchange {
    /// True if a response is awaited.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.reader.is_waiting()
    }

    /// True if some of the response has come.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.reader.has_begun()
    }

    /// Puts the bytes of a request into `out`: that of the script, or the one that a redirect leads
    /// to; `body` is a buffer.
    ///
    /// # Errors
    /// A variable is not defined, or cannot be sent.
    pub fn write(
        &mut self,
        taking: &Taking<'_>,
        body: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let (request, variables) = (taking.request, &taking.client.variables);
        let redirected = self.hops > 0;
        out.clear();
        body.clear();
        if !redirected {
            self.target.clear();
            request.write_target(variables, &mut self.target)?;
        }
        let method = if redirected && !request.is_head() {
            "get"
        } else {
            request.method
        };
        out.extend(method.bytes().map(|byte| byte.to_ascii_uppercase()));
        out.push(b' ');
        out.extend_from_slice(&self.target);
        out.extend_from_slice(b" HTTP/1.1\r\n");
        let has_body = !redirected && request.write_body(variables, body)?;
        let (mut host, mut agent, mut accept) = (false, false, false);
        if !redirected {
            request.write_headers(variables, out, |name| {
                host |= name.eq_ignore_ascii_case("host");
                agent |= name.eq_ignore_ascii_case("user-agent");
                accept |= name.eq_ignore_ascii_case("accept");
            })?;
        }
        let own: [(bool, &[u8], &[u8]); 3] = [
            (host, b"Host: ", taking.http.authority.as_bytes()),
            (agent, b"User-Agent: ", AGENT),
            (accept, b"Accept: ", b"*/*"),
        ];
        for (_, name, value) in own.into_iter().filter(|(given, ..)| !given) {
            out.extend_from_slice(name);
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        if !taking.client.jar.is_empty() {
            let (jar, secure) = (&taking.client.jar, taking.http.origin.secure);
            jar.write(&self.target, secure, SystemTime::now(), out);
        }
        if has_body || matches!(method, "post" | "put" | "patch") {
            out.extend_from_slice(b"Content-Length: ");
            write_number(body.len(), out);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
        Ok(())
    }

    /// The request leaves.
    pub fn sent(&mut self, request: &Request) {
        self.reader.expect(request.is_head());
        self.requests += 1;
        self.first_byte_ns = 0;
        self.status = 0;
        self.leads = Leads::Nowhere;
        self.found = 0;
        self.body_is_cut = false;
        self.body.clear();
    }

    /// The client goes on to its next request.
    pub fn begin(&mut self) {
        self.hops = 0;
        self.sent_again = false;
    }

    /// Takes in what came of the response; its end if that is among it.
    ///
    /// # Errors
    /// It is no response to the request.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        now_ns: u64,
        taking: &mut Taking<'_>,
    ) -> Result<Option<Ended>, HttpError> {
        if self.first_byte_ns == 0 {
            self.first_byte_ns = now_ns;
        }
        let mut reader = std::mem::take(&mut self.reader);
        let outcome = self.take_in(&mut reader, bytes, taking);
        self.reader = reader;
        if self.reader.awaits_head() {
            // What came was an interim response, such as 103 Early Hints.
            self.first_byte_ns = 0;
        }
        outcome
    }

    fn take_in(
        &mut self,
        reader: &mut Reader,
        bytes: &[u8],
        taking: &mut Taking<'_>,
    ) -> Result<Option<Ended>, HttpError> {
        let mut reading = reader.read(bytes);
        loop {
            match reading.event()? {
                None => return Ok(None),
                Some(Event::Head(head)) => self.on_head(head, taking),
                Some(Event::Body(bytes)) => self.on_body(bytes, taking),
                Some(Event::End { keep_alive }) => {
                    // Who sends more than was asked for is not asked again.
                    let by_server = !keep_alive;
                    let keep_alive = keep_alive && reading.event().is_ok();
                    return Ok(Some(Ended {
                        keep_alive,
                        by_server,
                    }));
                }
            }
        }
    }

    fn on_head(&mut self, head: Head<'_>, taking: &mut Taking<'_>) {
        self.status = head.status;
        let Taking {
            client,
            request,
            http,
        } = taking;
        for (name, value) in head.headers() {
            if http.config.cookies && name.eq_ignore_ascii_case(b"set-cookie") {
                let now = SystemTime::now();
                client.jar.set(value, &http.origin.host, &self.target, now);
            }
        }
        if request.follows
            && is_redirect(head.status, request, self.hops)
            && let Some(location) = head.header("location")
        {
            let here = http.origin.follow(location, &mut self.target);
            self.leads = if here { Leads::Here } else { Leads::Elsewhere };
            return;
        }
        for (number, extract) in request.extracts.iter().enumerate() {
            if let From::Header(name) = &extract.from
                && let Some(value) = head.header(name)
            {
                client.variables.set_text(extract.slot, value);
                self.found |= 1 << (number % 64);
            }
        }
    }

    fn on_body(&mut self, bytes: &[u8], taking: &Taking<'_>) {
        if !taking.request.keeps_body() || self.leads != Leads::Nowhere {
            return;
        }
        let room = taking.http.body_bytes_max - self.body.len();
        self.body_is_cut |= room < bytes.len();
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// The stream is over; true if that completes the response.
    ///
    /// # Errors
    /// It is over too early.
    pub fn end(&mut self) -> Result<bool, HttpError> {
        self.reader.end()
    }

    /// Looks at a whole response as the script wants it: code and words of what is wrong, if
    /// anything is; `text` is a buffer.
    pub fn judge(
        &mut self,
        taking: &mut Taking<'_>,
        text: &mut Vec<u8>,
    ) -> Option<(&'static str, String)> {
        let (client, request) = (&mut *taking.client, taking.request);
        if self.body_is_cut {
            let most = taking.http.body_bytes_max;
            let message = format!("the script looks at a body of more than {most} bytes");
            return Some(("body-too-long", message));
        }
        if let Some(why) = request.mismatch(&self.body, &client.variables, text) {
            return Some(("body-mismatch", why));
        }
        for (number, extract) in request.extracts.iter().enumerate() {
            let found = match &extract.from {
                From::Header(_) => self.found & 1 << (number % 64) != 0,
                From::Status => {
                    text.clear();
                    write_number(self.status.into(), text);
                    client.variables.set_text(extract.slot, text);
                    true
                }
                From::Body(_) | From::Json(_) => match extract.in_body(&self.body) {
                    Some(value) => {
                        client.variables.set_text(extract.slot, &value);
                        true
                    }
                    None => false,
                },
            };
            if !found {
                let message = format!("nothing in the response is {}", extract.written);
                return Some(("extract-missing", message));
            }
        }
        if self.body.capacity() > KEPT_CAPACITY_BYTES {
            self.body = Vec::new();
        }
        None
    }
}

/// True if a response with this status is a redirect that is followed. That of a request with a body
/// is, unless the body had to be sent again.
fn is_redirect(status: u16, request: &Request, hops: u32) -> bool {
    let plain = hops > 0 || matches!(request.method, "get" | "head");
    matches!(status, 301..=303) || (matches!(status, 307 | 308) && plain)
}

fn write_number(number: usize, out: &mut Vec<u8>) {
    use std::io::Write;
    // Writing to memory does not fail.
    let _ = write!(out, "{number}");
}
