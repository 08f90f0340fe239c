//! Both halves against each other: every loop and workload finishes and counts, bad usage is refused.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pgdyno-bare");

/// A server in a directory of its own; both go when it does.
struct Server {
    process: Child,
    directory: PathBuf,
}

impl Server {
    fn start(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("bare-{name}-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("a fresh directory");
        let mut process = Command::new(PROGRAM)
            .args(["serve", "--port", "5432", "--socket"])
            .arg(&directory)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert_eq!(line, "{\"ready\": true}\n");
        Self { process, directory }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn load(directory: &Path, more: &[&str]) -> Output {
    Command::new(PROGRAM)
        .args(["load", "--port", "5432", "--user", "u", "--database", "d"])
        .arg("--socket")
        .arg(directory)
        .args(more)
        .output()
        .expect("the load starts")
}

fn transactions(output: &Output) -> u64 {
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, rest) = text.split_once("\"transactions\": ").unwrap_or_else(|| {
        panic!("{text}{}", String::from_utf8_lossy(&output.stderr));
    });
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a count")
}

#[test]
fn epoll_runs_every_workload() {
    let server = Server::start("epoll");
    for script in ["select-only", "simple-update", "tpcb-like"] {
        let options = ["--script", script, "--clients", "3", "--seconds", "0.1"];
        assert!(
            transactions(&load(&server.directory, &options)) > 0,
            "{script}"
        );
    }
}

#[test]
fn io_uring_runs_where_the_kernel_allows_it() {
    let server = Server::start("uring");
    let options = [
        "--reactor",
        "io_uring",
        "--clients",
        "70",
        "--seconds",
        "0.1",
    ];
    let output = load(&server.directory, &options);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    if complaint.contains("not permitted") || complaint.contains("not implemented") {
        return;
    }
    assert!(transactions(&output) > 0, "{complaint}");
}

#[test]
fn bad_usage_is_refused() {
    for arguments in [
        &["load"][..],
        &["fly"],
        &["load", "--socket", "/tmp", "--host", "::1"],
        &[
            "load",
            "--socket",
            "/tmp",
            "--user",
            "u",
            "--database",
            "d",
            "--clients",
            "0",
        ],
        &[
            "load",
            "--socket",
            "/tmp",
            "--user",
            "u",
            "--database",
            "d",
            "--clients",
            "many",
        ],
        &["serve", "--socket"],
    ] {
        let output = Command::new(PROGRAM)
            .args(arguments)
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(output.stderr.starts_with(b"error: "), "{arguments:?}");
    }
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let output = load(Path::new("/nonexistent"), &[]);
    assert_eq!(output.status.code(), Some(2));
}
