//! Open loop: the times at which a group's transactions are due, independent of earlier ones.
//!
//! ```text
//! Profile (profile.rs)   a rate over time, its integral and the inverse of that, both exact
//! Arrivals (process.rs)  the times at which transactions are due: constant or Poisson
//! Queue (queue.rs)       who gets which arrival: one schedule for all clients on all threads
//! ```
//!
//! Nothing here has a clock: the time is always passed in, in nanoseconds after the load's start.

mod process;
mod profile;
mod queue;

pub use process::{Arrivals, Process};
pub use profile::{Profile, Segment};
pub use queue::{Arrival, Counts, Policy, Queue, Turn};

/// Highest rate, in transactions per second, factor included.
pub const RATE_MAX: f64 = 10_000_000.0;
