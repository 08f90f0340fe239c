//! Requests by HTTP: sent, answered, failed; and connections that the server closes in between.
//!
//! A server may close a connection after any response. That is no failure: it is made again for the
//! next request, and the time that this takes is part of the transaction's wait, or of the
//! request's service in the middle of a transaction.

use std::cmp::Reverse;
use std::sync::Arc;

use super::{Timer, Worker};
use crate::exchange::{Ended, Exchange, HOPS_MAX, Leads, Taking};
use crate::failure::{Code, Details, Failure};
use crate::link::{Doing, Link};
use crate::plan::{HttpPlan, Plan};
use crate::script::Request;
use crate::socket::CLOSED;
use crate::sys::monotonic_ns;

impl Worker {
    /// Sends the client's request, over a connection that is made first if there is none.
    pub(super) fn send_request(&mut self, slot: usize, command: usize) {
        let link = &mut self.links[slot];
        if link.dormant {
            return self.reopen(slot, command);
        }
        if let Some(exchange) = &mut link.http {
            exchange.begin();
        }
        self.dispatch(slot, command);
    }

    /// Sends a request of the script, or the one that a redirect leads to.
    fn dispatch(&mut self, slot: usize, command: usize) {
        let link = &mut self.links[slot];
        let Some((exchange, taking)) = taking(&self.shared.plan, link, command) else {
            return;
        };
        let (body, text) = (&mut self.body, &mut self.text);
        if let Err(why) = exchange.write(&taking, body, text) {
            let failure = Failure::own("script-error", why).at(command);
            return self.fail(slot, failure, monotonic_ns());
        }
        exchange.sent(taking.request);
        let (reused, redirected) = (exchange.requests > 1, exchange.hops > 0);
        let now_ns = monotonic_ns();
        link.doing = Doing::Statement;
        link.statement.command = command;
        link.statement.sent_ns = now_ns;
        let tally = &mut self.tally.groups[link.group].http;
        tally.requests += 1;
        tally.reused += u64::from(reused);
        tally.redirected += u64::from(redirected);
        tally.sent_bytes += self.text.len() as u64;
        self.out.extend_from_slice(&self.text);
        self.count_sent(slot, now_ns);
        self.note_sent(slot, command, now_ns);
        self.send(slot);
    }

    /// Makes the connection again, for this request.
    fn reopen(&mut self, slot: usize, command: usize) {
        let link = &mut self.links[slot];
        link.pending = Some(command);
        link.asked_ns = monotonic_ns();
        self.begin_connecting(slot);
    }

    /// The connection is there again: its request is sent.
    pub(super) fn on_reopened(&mut self, slot: usize, command: usize, now_ns: u64) {
        let link = &mut self.links[slot];
        let asked_ns = link.asked_ns;
        if let Some(client) = &mut link.client
            && client.sent_ns == 0
        {
            client.connect_ns += now_ns.saturating_sub(asked_ns.max(client.intended_ns));
            client.granted_ns = now_ns;
        }
        if let Some(exchange) = &mut link.http {
            exchange.sent_again = std::mem::take(&mut link.sent_again);
            if let Some((hops, target)) = link.kept.take() {
                (exchange.hops, exchange.target) = (hops, target);
            }
        }
        self.dispatch(slot, command);
    }

    /// Takes in what the server sent.
    pub(super) fn on_http_bytes(&mut self, slot: usize, bytes: &[u8], now_ns: u64) {
        let link = &mut self.links[slot];
        self.tally.groups[link.group].http.received_bytes += bytes.len() as u64;
        let command = link.statement.command;
        let busy = link.doing == Doing::Statement;
        let Some((exchange, mut taking)) = taking(&self.shared.plan, link, command)
            .filter(|(exchange, _)| busy && exchange.is_waiting())
        else {
            // Some servers say that they close a connection for which nothing is under way. What
            // comes for a request that was cut off at the end of the load is for nobody.
            let by_server = self.links[slot].doing != Doing::Dead;
            let group = self.links[slot].group;
            self.tally.groups[group].http.closed_by_server += u64::from(by_server);
            return self.go_dormant(slot);
        };
        match exchange.receive(bytes, now_ns, &mut taking) {
            Ok(None) => {}
            Ok(Some(ended)) => self.end_response(slot, ended, now_ns),
            Err(error) => {
                let failure = Failure::own("bad-response", error.to_string());
                self.fail_request(slot, failure, now_ns);
            }
        }
    }

    /// A response is complete.
    fn end_response(&mut self, slot: usize, ended: Ended, now_ns: u64) {
        let link = &mut self.links[slot];
        let (group, command, sent_ns) =
            (link.group, link.statement.command, link.statement.sent_ns);
        let Some(client) = &link.client else { return };
        let Some((script, statement)) = self.shared.plan.statement_of(client, command) else {
            return;
        };
        let row = script.statement_row + statement.position;
        let Some((exchange, mut taking)) = taking(&self.shared.plan, link, command) else {
            return;
        };
        let class = usize::from(exchange.status / 100).clamp(1, 5);
        self.tally.groups[group].http.statuses[class - 1] += 1;
        let row = row + usize::from(exchange.hops > 0);
        let first_byte_ns = exchange.first_byte_ns.saturating_sub(sent_ns);
        let failure = match exchange.leads {
            Leads::Here if exchange.hops >= HOPS_MAX => {
                let message = format!("more than {HOPS_MAX} redirects one after the other");
                Some(Failure::own("redirect-loop", message))
            }
            Leads::Here => None,
            Leads::Elsewhere => Some(Failure::own(
                "redirect-elsewhere",
                "a redirect leads to another server, which the load does not use",
            )),
            Leads::Nowhere if !taking.request.wants(exchange.status) => {
                Some(unwanted(exchange.status))
            }
            Leads::Nowhere => exchange
                .judge(&mut taking, &mut self.text)
                .map(|(code, message)| Failure::own(code, message)),
        };
        let goes_on = exchange.leads == Leads::Here && failure.is_none();
        exchange.hops += u32::from(goes_on);
        self.note_ready(slot, pgdyno_wire::TransactionStatus::Idle);
        self.links[slot].doing = Doing::Idle;
        self.tally.groups[group].http.closed_by_server += u64::from(ended.by_server);
        if !ended.keep_alive {
            self.keep_place(slot, goes_on);
        }
        let tally = &mut self.tally.statements[row];
        match failure {
            Some(failure) => {
                tally.failed += 1;
                self.fail(slot, failure.at(command), now_ns);
            }
            None => {
                tally.done += 1;
                tally.service.record(now_ns - sent_ns);
                tally.first_byte.record(first_byte_ns);
                if !goes_on {
                    self.run_script(slot, now_ns);
                } else if self.links[slot].dormant {
                    self.reopen(slot, command);
                } else {
                    self.dispatch(slot, command);
                }
            }
        }
    }

    /// The server has closed the connection, or it broke.
    pub(super) fn on_http_closed(&mut self, slot: usize, why: &str) {
        let now_ns = monotonic_ns();
        let link = &mut self.links[slot];
        let (busy, group) = (link.doing == Doing::Statement, link.group);
        let Some(exchange) = link.http.as_mut().filter(|_| busy) else {
            self.tally.groups[group].http.closed_by_server += 1;
            return self.go_dormant(slot);
        };
        let failure = match exchange.end() {
            Ok(true) => {
                let ended = Ended {
                    keep_alive: false,
                    by_server: true,
                };
                return self.end_response(slot, ended, now_ns);
            }
            Ok(false) => return,
            Err(_) if !exchange.has_begun() && self.may_send_again(slot) => {
                return self.send_again(slot, why);
            }
            Err(error) if why == CLOSED => {
                let code = if self.has_begun(slot) {
                    "truncated"
                } else {
                    "no-response"
                };
                Failure::own(code, error.to_string())
            }
            Err(_) => Failure::own("reset", why),
        };
        self.fail_request(slot, failure, now_ns);
    }

    fn has_begun(&self, slot: usize) -> bool {
        let exchange = self.links[slot].http.as_ref();
        exchange.is_some_and(|exchange| exchange.has_begun())
    }

    /// True if the server may not have seen the request: it had closed a connection that served
    /// others before. One that changes something is never sent twice.
    fn may_send_again(&self, slot: usize) -> bool {
        let Some((_, statement)) = self.statement(slot) else {
            return false;
        };
        let request = statement.request.as_ref();
        let exchange = self.links[slot].http.as_ref();
        request.is_some_and(|request| request.is_idempotent())
            && exchange.is_some_and(|it| it.requests > 1 && !it.sent_again && it.hops == 0)
    }

    fn send_again(&mut self, slot: usize, why: &str) {
        let command = self.links[slot].statement.command;
        let failure = Failure::own("no-response", why).at(command);
        self.count_error(slot, &failure, false, true);
        self.script_tally(slot).retried += 1;
        self.tally.groups[self.links[slot].group]
            .http
            .closed_by_server += 1;
        self.go_dormant(slot);
        self.links[slot].sent_again = true;
        self.reopen(slot, command);
    }

    /// The request under way fails, and its connection with it.
    fn fail_request(&mut self, slot: usize, failure: Box<Failure>, now_ns: u64) {
        let link = &mut self.links[slot];
        let command = link.statement.command;
        let hops = link.http.as_ref().map_or(0, |exchange| exchange.hops);
        if let Some((script, statement)) = self.statement(slot) {
            let row = script.statement_row + statement.position + usize::from(hops > 0);
            self.tally.statements[row].failed += 1;
        }
        self.go_dormant(slot);
        self.links[slot].doing = Doing::Idle;
        self.fail(slot, failure.at(command), now_ns);
    }

    /// Closes a connection that is made again for the next request.
    fn go_dormant(&mut self, slot: usize) {
        self.keep_place(slot, false);
    }

    /// As [`Worker::go_dormant`]; `keeps`: where the next request goes is kept.
    fn keep_place(&mut self, slot: usize, keeps: bool) {
        let link = &mut self.links[slot];
        if link.is_established() {
            self.shared.health.down();
        }
        let kept = link.http.take();
        if keeps && let Some(exchange) = kept {
            link.kept = Some((exchange.hops, exchange.target));
        }
        link.dormant = true;
        link.peer = None;
        let tls = link.tls.take();
        let mut farewell = std::mem::take(&mut self.out);
        if let Some(mut tls) = tls {
            tls.say_goodbye(&mut farewell);
        }
        self.reactor.close(slot, &farewell);
        farewell.clear();
        self.out = farewell;
    }

    /// From now on, looks for overdue responses.
    pub(super) fn watch_overdue(&mut self, now_ns: u64) {
        for (group, plan) in self.shared.plan.groups.iter().enumerate() {
            if let Some(http) = &plan.http {
                let at_ns = now_ns + http.look_ns();
                self.timers.push(Reverse((at_ns, Timer::Overdue(group))));
            }
        }
    }

    /// Ends requests whose response does not begin, or does not end, in time.
    pub(super) fn end_overdue(&mut self, group: usize, now_ns: u64) {
        let shared = Arc::clone(&self.shared);
        let Some(http) = &shared.plan.groups[group].http else {
            return;
        };
        let overdue = |(slot, link): (usize, &Link)| {
            let exchange = link.http.as_ref()?;
            let since_ns = match exchange.first_byte_ns {
                0 => link.statement.sent_ns,
                first_byte_ns => first_byte_ns,
            };
            let is = link.group == group
                && link.doing == Doing::Statement
                && now_ns.saturating_sub(since_ns) > http.timeout_ns;
            is.then_some((slot, exchange.first_byte_ns != 0))
        };
        let found: Vec<(usize, bool)> = self.links.iter().filter_map(overdue).collect();
        for (slot, has_begun) in found {
            let ms = http.config.timeout_ms;
            let failure = if has_begun {
                Failure::own(
                    "timeout-body",
                    format!("the response did not end in {ms} ms"),
                )
            } else {
                Failure::own(
                    "timeout-first-byte",
                    format!("the response did not begin in {ms} ms"),
                )
            };
            self.fail_request(slot, failure, now_ns);
        }
        let at_ns = now_ns + http.look_ns();
        self.timers.push(Reverse((at_ns, Timer::Overdue(group))));
    }
}

/// A connection's state, its client, and the request at this place of the client's script.
fn taking<'a>(
    plan: &'a Plan,
    link: &'a mut Link,
    command: usize,
) -> Option<(&'a mut Exchange, Taking<'a>)> {
    let client = link.client.as_deref_mut()?;
    let (_, statement) = plan.statement_of(client, command)?;
    let request: &Request = statement.request.as_deref()?;
    let http: &HttpPlan = plan.groups[link.group].http.as_ref()?;
    let exchange = link.http.as_deref_mut()?;
    let taking = Taking {
        client,
        request,
        http,
    };
    Some((exchange, taking))
}

/// The server answered, and not as the script wants it.
fn unwanted(status: u16) -> Box<Failure> {
    Box::new(Failure {
        code: Code::status(status),
        message: format!("the server answered {status}"),
        command: None,
        details: Details::default(),
    })
}
