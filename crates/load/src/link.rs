//! A connection as a worker thread holds it: protocol state, and what it is doing. Its socket is the
//! reactor's, under the same number.

use std::collections::VecDeque;

use pgdyno_wire::{Scanner, Session, TransactionStatus};

use crate::capture::Capturing;
use crate::client::Client;
use crate::connecting::Connecting;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::pool::PoolId;
use crate::target::Peer;
use crate::times::ConnectMarks;
use crate::tls::Tls;

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Not connected; it tries again when its timer says so.
    Pausing,
    /// Connecting or logging in.
    Connecting,
    /// Connected, with no statement under way.
    Idle,
    /// A statement was sent.
    Statement,
    /// ROLLBACK was sent.
    RollingBack,
    /// In `\sleep`.
    Sleeping,
    /// The pool's validation query was sent, for the client that is to get the connection.
    Validating,
    /// The settings that sessions are to have were sent, for the client whose transaction follows.
    Adjusting,
    /// Lost while another thread granted it; the client on its way here finds that out.
    Dead,
}

/// The statement under way.
#[derive(Debug, Default)]
pub struct InFlight {
    /// Its place in the script's commands.
    pub command: usize,
    /// Time at which it was sent.
    pub sent_ns: u64,
    /// Error of the server.
    pub error: Option<Box<Failure>>,
    /// A part of it was to change rows, and there were none.
    pub untouched: bool,
    /// Variables that its rows set.
    pub capture: Capturing,
    /// Of COPY FROM STDIN: number of the next row, and number of rows.
    pub rows: (u64, u64),
    /// More of them are to be sent.
    pub copying: bool,
}

/// Pending answers of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// The answer to a statement, by its place in the script's commands.
    Statement {
        /// The place.
        command: usize,
        /// Time at which it was sent; 0 before that.
        sent_ns: u64,
    },
    /// The answer to Sync.
    Sync,
}

/// Statements sent without waiting, in order, up to the answer to the last Sync.
#[derive(Debug, Default)]
pub struct Pipeline {
    /// Messages in the output buffer without an answer yet.
    pub awaited: VecDeque<Awaited>,
    /// Failure of the transaction, once all is answered.
    pub failure: Option<Box<Failure>>,
    /// Fate of the transaction after the failure, by what was sent before that was known.
    pub after: After,
}

/// Fate of a transaction block after an error in a pipeline.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It is still open, or there was none.
    #[default]
    Open,
    /// It was committed: ROLLBACK TO SAVEPOINT had taken the error back.
    Committed,
    /// It was rolled back.
    Lost,
}

impl Pipeline {
    /// True if answers are to come.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// True if the statement of `command` was sent and is not answered yet.
    #[must_use]
    pub fn awaits(&self, command: usize) -> bool {
        let is_it = |each: &Awaited| matches!(each, Awaited::Statement { command: sent, .. } if *sent == command);
        self.awaited.iter().rev().any(is_it)
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.awaited.clear();
        self.failure = None;
        self.after = After::Open;
    }

    /// Send the content of the output buffer now.
    pub fn mark_sent(&mut self, now_ns: u64) {
        for awaited in self.awaited.iter_mut().rev() {
            match awaited {
                Awaited::Statement { sent_ns, .. } if *sent_ns == 0 => *sent_ns = now_ns,
                Awaited::Statement { .. } => break,
                Awaited::Sync => {}
            }
        }
    }

    /// The server skips everything up to the next Sync.
    pub fn skip_to_sync(&mut self) {
        while let Some(Awaited::Statement { .. }) = self.awaited.front() {
            self.awaited.pop_front();
        }
    }
}

/// A connection, or the place of one that is being made.
pub struct Link {
    /// Never used again, unlike its index.
    pub id: u64,
    /// Its group.
    pub group: usize,
    /// True if it belongs to a pool of the group; else to its client.
    pub pooled: bool,
    /// Of the pool: its instance.
    pub instance: usize,
    /// Its state.
    pub doing: Doing,
    /// The client that uses it.
    pub client: Option<Box<Client>>,
    /// The connection while it is being made.
    pub connecting: Option<Box<Connecting>>,
    /// State of PostgreSQL's protocol; there once the connection is established.
    pub session: Option<Session>,
    /// State of HTTP, instead.
    pub http: Option<Box<Exchange>>,
    /// Of HTTP: a server may close a connection between two requests, and it is made again for the
    /// next one. In between it counts as the client's, or the pool's, though it is none.
    pub dormant: bool,
    /// The command with the request for which it is made again.
    pub pending: Option<usize>,
    /// The pending request is sent again because the server had closed the connection.
    pub sent_again: bool,
    /// Of that request, if a redirect led to it: how many did, and its target.
    pub kept: Option<(u32, Vec<u8>)>,
    /// Encryption.
    pub tls: Option<Box<Tls>>,
    /// The server that it is to.
    pub peer: Option<Box<Peer>>,
    /// Bytes that make no whole message yet.
    pub scanner: Scanner,
    /// The transaction status that the server reported last.
    pub status: TransactionStatus,
    /// Index of the script's command that opened the current transaction block, if known.
    pub opened_by: Option<usize>,
    /// The statement under way, outside of a pipeline.
    pub statement: InFlight,
    /// Statements under way within a pipeline.
    pub pipeline: Pipeline,
    /// Error for which ROLLBACK is sent, or a fatal one, after which the server closes the connection.
    pub failure: Option<Box<Failure>>,
    /// Statements known to the server, one bit each.
    pub prepared: Prepared,
    /// Which of the settings that sessions are to have it has: their number in [`crate::shared`].
    pub adjusted: u64,
    /// Since when its client is without a connection, unless it shares those of a pool.
    pub asked_ns: u64,
    /// Progress of establishing it.
    pub marks: ConnectMarks,
    /// True if it holds one of the places for connections on their way.
    pub at_gate: bool,
    /// Failures to connect in a row.
    pub failures: u32,
    /// True if it replaces a connection that was lost.
    pub again: bool,
    /// Timers with another number are out of date.
    pub timer: u32,
    /// Among the clients that have nothing to do, this is its client's; 0 if it has something.
    pub ticket: u64,
    /// Transactions that it has executed since it was established.
    pub uses: u64,
    /// Time at which it becomes too old.
    pub expires_ns: u64,
    /// In a pool: since when it is idle.
    pub idle_since_ns: u64,
    /// Time at which the server's last bytes came.
    pub heard_ns: u64,
}

impl Link {
    /// Not connected yet.
    #[must_use]
    pub fn new(id: u64, group: usize) -> Self {
        Self {
            id,
            group,
            pooled: false,
            instance: 0,
            doing: Doing::Pausing,
            client: None,
            connecting: None,
            session: None,
            http: None,
            dormant: false,
            pending: None,
            sent_again: false,
            kept: None,
            tls: None,
            peer: None,
            scanner: Scanner::new(),
            status: TransactionStatus::Idle,
            opened_by: None,
            statement: InFlight::default(),
            pipeline: Pipeline::default(),
            failure: None,
            prepared: Prepared::default(),
            adjusted: 0,
            asked_ns: 0,
            marks: ConnectMarks::default(),
            at_gate: false,
            failures: 0,
            again: false,
            timer: 0,
            ticket: 0,
            uses: 0,
            expires_ns: u64::MAX,
            idle_since_ns: 0,
            heard_ns: 0,
        }
    }

    /// The pool that it belongs to, if it is a pool's.
    #[must_use]
    pub fn pool(&self) -> PoolId {
        PoolId {
            group: self.group,
            instance: self.instance,
        }
    }

    /// It is a pool's from now on.
    pub fn join(&mut self, pool: PoolId) {
        self.pooled = true;
        self.instance = pool.instance;
    }

    /// True if authentication is over and the connection not lost.
    #[must_use]
    pub fn is_established(&self) -> bool {
        !self.dormant && !matches!(self.doing, Doing::Pausing | Doing::Connecting | Doing::Dead)
    }

    /// Since when its client waits for an answer of the server, if it does; in a pipeline, since the
    /// first byte of the transaction.
    #[must_use]
    pub fn waits_since_ns(&self) -> Option<u64> {
        let client = self.client.as_ref()?;
        if self.doing != Doing::Statement || self.statement.copying {
            return None;
        }
        Some(if self.pipeline.is_busy() {
            client.sent_ns
        } else {
            self.statement.sent_ns
        })
    }

    /// Time of the last bytes in either direction, of an established connection to a database.
    #[must_use]
    pub fn last_byte_ns(&self) -> u64 {
        let piped = self.pipeline.awaited.iter().map(|awaited| match awaited {
            Awaited::Statement { sent_ns, .. } => *sent_ns,
            Awaited::Sync => 0,
        });
        let sent_ns = piped.chain([self.statement.sent_ns]).max();
        self.heard_ns.max(sent_ns.unwrap_or(0))
    }

    /// Stores the row that `\gset` waits for, if it does; what is wrong with it.
    pub fn capture_row(&mut self) -> Option<Box<Failure>> {
        let client = self.client.as_mut()?;
        self.statement.capture.finish(&mut client.variables).err()
    }

    /// True if its client has nothing to do, under this ticket.
    #[must_use]
    pub fn has_ticket(&self, group: usize, ticket: u64) -> bool {
        self.group == group && self.ticket == ticket
    }

    /// Forgets everything about the socket, which is closed.
    pub fn disconnect(&mut self) {
        self.connecting = None;
        self.session = None;
        self.http = None;
        self.dormant = false;
        self.pending = None;
        self.sent_again = false;
        self.kept = None;
        self.tls = None;
        self.peer = None;
        self.scanner = Scanner::new();
        self.status = TransactionStatus::Idle;
        self.statement = InFlight::default();
        self.pipeline.clear();
        self.prepared.clear();
        self.adjusted = 0;
        self.heard_ns = 0;
    }
}

/// Said of a prepared statement that is not there though this connection made it, or is there though
/// it did not.
const FOREIGN: &str = "the statement was prepared in another session: with a pooler in transaction \
                       mode, use -M simple or -M extended";

/// Which statements a connection has prepared, by their row in a tally.
#[derive(Debug, Default)]
pub struct Prepared {
    words: Vec<u64>,
    /// The server's idea may differ: statements are closed before they are prepared again.
    pub doubtful: bool,
}

impl Prepared {
    /// True if this one is prepared.
    #[must_use]
    pub fn has(&self, row: usize) -> bool {
        self.words
            .get(row / 64)
            .is_some_and(|word| word & (1 << (row % 64)) != 0)
    }

    /// This one was prepared.
    pub fn insert(&mut self, row: usize) {
        if self.words.len() <= row / 64 {
            self.words.resize(row / 64 + 1, 0);
        }
        self.words[row / 64] |= 1 << (row % 64);
    }

    /// The connection is new.
    pub fn clear(&mut self) {
        self.words.clear();
        self.doubtful = false;
    }

    /// A statement failed, that of a row if it is known: perhaps the server no longer agrees on what
    /// is prepared. Says so in the failure when this connection is not always the same session.
    pub fn heed(&mut self, failure: &mut Failure, row: Option<usize>) {
        let foreign = match failure.code.as_str() {
            "26000" => row.is_some_and(|row| self.has(row)),
            "42P05" => !self.doubtful,
            "0A000" => false,
            _ => return,
        };
        if foreign {
            failure.details.advice = FOREIGN;
        }
        self.words.clear();
        self.doubtful = true;
    }
}
