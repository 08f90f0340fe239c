//! The floor of the benchmarks. `load` does for each transaction the least that any client can:
//! one thread, prepared statements, random parameters, and no script language, histogram or
//! ledger; what a load generator costs above it is the price of what it measures. `serve` is the
//! least that a server can do, for benchmarks of the client alone with more connections than a
//! PostgreSQL here could carry.
//!
//! Both print one line of JSON: `load` its counts, `serve` that it is ready.

mod client;
mod epoll;
mod options;
mod script;
mod serve;
mod sys;
#[cfg(target_os = "linux")]
mod uring;
mod window;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use options::{Command, LoadOptions, Reactor};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match options::parse(&arguments) {
        Ok(Command::Load(options)) => load(&options),
        Ok(Command::Serve { address }) => serve::serve(&address),
        Err(complaint) => {
            let _ = writeln!(io::stderr(), "error: {complaint}\n\n{}", options::USAGE);
            return ExitCode::from(1);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}

fn load(options: &LoadOptions) -> io::Result<()> {
    let script = script::script(options.script, options.scale);
    let began = Instant::now();
    let mut clients = (0..options.clients)
        .map(|number| client::Client::connect(options, &script, number as u64))
        .collect::<io::Result<Vec<_>>>()?;
    let connect_s = began.elapsed().as_secs_f64();
    let measured = match options.reactor {
        Reactor::Epoll => epoll::run(&mut clients, &script, options.seconds)?,
        #[cfg(target_os = "linux")]
        Reactor::IoUring => uring::run(&mut clients, &script, options.seconds)?,
        #[cfg(not(target_os = "linux"))]
        Reactor::IoUring => return Err(io::Error::other("io_uring is Linux's")),
    };
    for client in &mut clients {
        client.terminate();
    }
    writeln!(
        io::stdout(),
        "{{\"transactions\": {}, \"seconds\": {:.6}, \"cpu_user_s\": {:.6}, \
         \"cpu_system_s\": {:.6}, \"connect_s\": {connect_s:.6}}}",
        measured.transactions,
        measured.seconds,
        measured.cpu.user_s,
        measured.cpu.system_s,
    )
}
