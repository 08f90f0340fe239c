//! The moments of a transaction and of a connection, and the one place where they are taken apart.

/// A transaction that is done: when what happened, on the monotonic clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Time at which it should have started.
    pub intended_ns: u64,
    /// Time at which its client began to wait for a pooled connection; 0 if it did not.
    pub queued_ns: u64,
    /// Time at which a connection was available.
    pub granted_ns: u64,
    /// Duration of connecting for it alone; 0 without.
    pub connect_ns: u64,
    /// Time of its first byte, or of a pause of its script before that; 0 if it did neither.
    pub sent_ns: u64,
    /// Time of its last answer.
    pub done_ns: u64,
}

/// A transaction's time taken apart: response = wait + service, wait = lag + pool + connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spans {
    /// Intended → done.
    pub response_ns: u64,
    /// Intended → sent.
    pub wait_ns: u64,
    /// The part of the wait that is neither of the two below: the client came late.
    pub client_lag_ns: u64,
    /// The part of the wait in the pool's queue.
    pub pool_wait_ns: u64,
    /// The part of the wait in which a connection was established.
    pub connect_ns: u64,
    /// Sent → done.
    pub service_ns: u64,
}

impl Times {
    /// Takes the time apart. The parts always add up, whatever the moments are: a part that reaches
    /// beyond the wait is cut to it.
    #[must_use]
    pub fn spans(&self) -> Spans {
        let done_ns = self.done_ns.max(self.intended_ns);
        let sent_ns = match self.sent_ns {
            0 => done_ns,
            sent_ns => sent_ns.clamp(self.intended_ns, done_ns),
        };
        let wait_ns = sent_ns - self.intended_ns;
        let connect_ns = self.connect_ns.min(wait_ns);
        let queued = match self.queued_ns {
            0 => 0,
            queued_ns => self.granted_ns.saturating_sub(queued_ns),
        };
        // A connection that was established while the client queued is not waited for twice.
        let pool_wait_ns = queued.saturating_sub(connect_ns).min(wait_ns - connect_ns);
        Spans {
            response_ns: done_ns - self.intended_ns,
            wait_ns,
            client_lag_ns: wait_ns - connect_ns - pool_wait_ns,
            pool_wait_ns,
            connect_ns,
            service_ns: done_ns - sent_ns,
        }
    }
}

/// A connection being established: when it passed which point; 0 for one that it did not pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectMarks {
    /// The attempt began.
    pub began_ns: u64,
    /// The socket was connected.
    pub socket_ns: u64,
    /// TLS was agreed on; 0 without TLS.
    pub tls_ns: u64,
    /// The server accepted who the client is.
    pub authenticated_ns: u64,
}

/// Durations of the phases of establishing a connection; their sum is `total_ns`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectTimes {
    /// The socket, TCP or Unix.
    pub tcp_ns: u64,
    /// TLS; `None` without.
    pub tls_ns: Option<u64>,
    /// Start-up message → accepted.
    pub auth_ns: u64,
    /// Accepted → ready for the first statement.
    pub ready_ns: u64,
    /// All of it.
    pub total_ns: u64,
}

impl ConnectMarks {
    /// The server accepted who the client is, unless it said so before.
    pub fn authenticated(&mut self, now_ns: u64) {
        if self.authenticated_ns == 0 {
            self.authenticated_ns = now_ns;
        }
    }

    /// The phases of a connection that is ready now. A point that was not passed counts as passed
    /// together with the one before it.
    #[must_use]
    pub fn times(&self, ready_ns: u64) -> ConnectTimes {
        let ready_ns = ready_ns.max(self.began_ns);
        let socket_ns = self.socket_ns.clamp(self.began_ns, ready_ns);
        let tls_ns = self.tls_ns.clamp(socket_ns, ready_ns);
        let authenticated_ns = self.authenticated_ns.clamp(tls_ns, ready_ns);
        ConnectTimes {
            tcp_ns: socket_ns - self.began_ns,
            tls_ns: (self.tls_ns != 0).then_some(tls_ns - socket_ns),
            auth_ns: authenticated_ns - tls_ns,
            ready_ns: ready_ns - authenticated_ns,
            total_ns: ready_ns - self.began_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_parts_of_a_transaction_add_up(
            moments in prop::array::uniform6(prop_oneof![Just(0), 0_u64..1000, any::<u64>()]),
        ) {
            let [intended_ns, queued_ns, granted_ns, connect_ns, sent_ns, done_ns] = moments;
            let times = Times { intended_ns, queued_ns, granted_ns, connect_ns, sent_ns, done_ns };
            let spans = times.spans();
            prop_assert_eq!(spans.response_ns, done_ns.saturating_sub(intended_ns));
            prop_assert_eq!(spans.wait_ns + spans.service_ns, spans.response_ns);
            let parts = spans.client_lag_ns + spans.pool_wait_ns + spans.connect_ns;
            prop_assert_eq!(parts, spans.wait_ns);
        }

        #[test]
        fn the_phases_of_a_connection_add_up(marks in prop::array::uniform5(0_u64..1000)) {
            let [began_ns, socket_ns, tls_ns, authenticated_ns, ready_ns] = marks;
            let marks = ConnectMarks { began_ns, socket_ns, tls_ns, authenticated_ns };
            let times = marks.times(ready_ns);
            let parts = times.tcp_ns + times.tls_ns.unwrap_or(0) + times.auth_ns + times.ready_ns;
            prop_assert_eq!(parts, times.total_ns);
            prop_assert_eq!(times.total_ns, ready_ns.saturating_sub(began_ns));
        }
    }

    #[test]
    fn a_wait_is_taken_apart_by_what_was_waited_for() {
        let times = Times {
            intended_ns: 1000,
            queued_ns: 1010,
            granted_ns: 1100,
            connect_ns: 30,
            sent_ns: 1105,
            done_ns: 1205,
        };
        let spans = times.spans();
        assert_eq!(
            (spans.pool_wait_ns, spans.connect_ns, spans.client_lag_ns),
            (60, 30, 15)
        );
        assert_eq!(
            (spans.wait_ns, spans.service_ns, spans.response_ns),
            (105, 100, 205)
        );
        let unsent = Times {
            sent_ns: 0,
            queued_ns: 0,
            connect_ns: 0,
            ..times
        };
        assert_eq!(
            (unsent.spans().client_lag_ns, unsent.spans().service_ns),
            (205, 0)
        );
    }
}
