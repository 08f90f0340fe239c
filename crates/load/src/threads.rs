//! The threads of a load: started, bound to a CPU, given their nice level.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use crate::error::LoadError;
use crate::plan::Plan;
use crate::reactor::{Reactor, Wanted};
use crate::shared::{Mail, Shared};
use crate::socket::reason;
use crate::sys::{pin_to_cpu, set_nice};
use crate::worker::Worker;

/// Expressions nest as deep as [`crate::script::HEIGHT_MAX`], and are evaluated by recursion.
const STACK_BYTES: usize = 16 << 20;

/// All of them, settled where they are to run, or none.
///
/// # Errors
/// The system's limits, or a CPU or nice level that cannot be had.
pub fn spawn_workers(
    shared: &Arc<Shared>,
    reactors: Vec<Reactor>,
) -> Result<Vec<JoinHandle<()>>, LoadError> {
    let mut workers = Vec::with_capacity(reactors.len());
    let (settled, outcomes) = mpsc::channel();
    for (thread, reactor) in reactors.into_iter().enumerate() {
        let (state, settled) = (Arc::clone(shared), settled.clone());
        let named = std::thread::Builder::new()
            .name(format!("pgdyno-load-{thread}"))
            .stack_size(STACK_BYTES);
        let worker = named.spawn(move || work(thread, state, reactor, settled));
        match worker {
            Ok(worker) => workers.push(worker),
            Err(error) => {
                shared.post_all(|| Mail::Exit);
                return Err(no_thread(&error));
            }
        }
    }
    drop(settled);
    match outcomes.iter().find_map(Result::err) {
        None => Ok(workers),
        Some(error) => {
            shared.post_all(|| Mail::Exit);
            Err(error)
        }
    }
}

/// A worker thread, from its first instruction to its last.
fn work(
    thread: usize,
    shared: Arc<Shared>,
    mut reactor: Reactor,
    settled: mpsc::Sender<Result<(), LoadError>>,
) {
    let outcome = settle(thread, &shared.plan, &mut reactor);
    let failed = outcome.is_err();
    // The thread that started the load waits for the outcomes of all.
    let _ = settled.send(outcome);
    drop(settled);
    if !failed {
        Worker::new(thread, shared, reactor).run();
    }
}

/// Make the calling thread worker number `thread`.
fn settle(thread: usize, plan: &Plan, reactor: &mut Reactor) -> Result<(), LoadError> {
    if let Some(cpus) = &plan.cpus {
        let cpu = cpus[thread % cpus.len()];
        pin_to_cpu(cpu).map_err(|error| no_cpu(cpu, &error))?;
    }
    if let Some(level) = plan.nice {
        set_nice(level).map_err(|error| no_nice(level, &error))?;
    }
    reactor
        .settle()
        .map_err(|error| no_reactor(plan.reactor, &error))
}

fn no_cpu(cpu: usize, error: &std::io::Error) -> LoadError {
    let message = format!("cannot bind a thread to CPU {cpu}: {}", reason(error));
    let hint = match std::thread::available_parallelism() {
        Ok(count) => format!("this process may use {count} CPUs; they are numbered from 0"),
        Err(_) => "CPUs are numbered from 0".to_owned(),
    };
    LoadError::new("system-limit", message).with_hint(hint)
}

fn no_nice(level: i32, error: &std::io::Error) -> LoadError {
    let message = format!("cannot take nice level {level}: {}", reason(error));
    LoadError::new("system-limit", message)
        .with_hint("levels below 0 require root, or an RLIMIT_NICE that allows them (ulimit -e)")
}

/// The error for a reactor that cannot start.
#[must_use]
pub fn no_reactor(wanted: Wanted, error: &std::io::Error) -> LoadError {
    if wanted != Wanted::IoUring {
        return no_thread(error);
    }
    let message = format!("io_uring is not available: {}", reason(error));
    LoadError::new("reactor-unsupported", message).with_hint(
        "it needs Linux 6.1 and kernel.io_uring_disabled=0, and many containers forbid it; reactor \
         auto then uses mio",
    )
}

/// The error for a thread that cannot start.
#[must_use]
pub fn no_thread(error: &std::io::Error) -> LoadError {
    LoadError::new(
        "system-limit",
        format!("cannot start the load's threads: {error}"),
    )
    .with_hint("raise the limits on processes and open files (ulimit -u, ulimit -n)")
}
