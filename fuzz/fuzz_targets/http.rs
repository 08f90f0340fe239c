//! Arbitrary bytes from a web server, in arbitrary pieces: nothing panics, nothing hangs, memory
//! stays bounded, and the split makes no difference; and redirects and cookies that it gives.
//!
//! The first two bytes of an input choose the request and the size of the pieces. The same checks
//! run on made-up streams in `crates/http/tests/hostile.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/http/tests/outcome/mod.rs"]
mod outcome;

fuzz_target!(|input: &[u8]| outcome::check(input));
