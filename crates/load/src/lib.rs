//! The load engine of pgdyno. It does not depend on Python; `crates/python` wraps it.
//!
//! ```text
//! Load (load.rs)       made from a Plan (config.rs, plan.rs), steered from outside
//! Coordinator          a thread that ends intervals and follows schedules (coordinator.rs, schedule.rs)
//! Worker (worker.rs)   a thread: event loop, connections (link.rs), timers, counts (tally.rs,
//!                      times.rs); its sockets are a reactor's (reactor.rs)
//! Arrivals (arrival/)  when the transactions of an open loop are due, and who gets which
//! Ack ledger (acks/)   the clients' own record of how each transaction ended
//! Log (translog.rs)    pgbench's log of transactions
//! Target (target.rs)   the servers: which one a connection gets (hosts.rs), how it is made (socket.rs),
//!                      encrypted and logged in (connecting.rs, tls.rs), tried and cancelled (net.rs)
//! SlowStart            who of a group may connect again after a failure (slow_start.rs)
//! Exchange             requests and responses of one connection by HTTP (exchange.rs)
//! Client (client.rs)   one simulated client in its script (script/); moves between threads through
//!                      its group's pool (pool.rs)
//! Samples (sample.rs)  transactions as they were sent, for their plans
//! Collector            the threads' counts of an interval (collect.rs), put together (report.rs)
//! ```
//!
//! Times are nanoseconds of the monotonic clock. A transaction is *intended* when it should start,
//! *sent* when its first byte leaves, *done* when its last answer is there: response = wait + service.

mod acks;
pub mod arrival;
mod blocking;
mod capture;
mod client;
mod collect;
mod config;
mod connecting;
mod coordinator;
mod error;
mod exchange;
mod failure;
mod histogram;
mod hosts;
mod keys;
mod link;
mod load;
pub mod mix;
mod net;
mod plan;
mod pool;
mod reactor;
mod report;
mod sample;
mod schedule;
pub mod script;
mod seeds;
mod shared;
mod slow_start;
mod socket;
mod sys;
mod tally;
mod target;
mod threads;
mod times;
mod tls;
mod translog;
mod worker;

pub use coordinator::State;
pub use error::LoadError;
pub use histogram::Histogram;
pub use load::{Facts, Load};
pub use plan::PlanError;
pub use report::{ErrorRow, GroupRow, HttpRow, Interval, ScriptRow, StatementRow, ThreadRow};
pub use sample::{SampledStatement, SampledTransaction};
