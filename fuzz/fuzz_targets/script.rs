//! Any text as a script: it is parsed, and what parses is evaluated and rendered. Nothing may
//! panic, hang or exhaust the stack.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgdyno_load::script::{Command, Rng, Source, Variables, eval, parse};

fuzz_target!(|text: &str| {
    let source = Source { name: "fuzz", text, file: "fuzz" };
    let Ok(group) = parse(&[source], &["x"]) else { return };
    let mut variables = Variables::new(&group.names);
    let mut rng = Rng::new(1);
    let mut out = Vec::new();
    for command in &group.scripts[0].commands {
        match command {
            Command::Set { slot, expr } => {
                if let Ok(value) = eval(expr, &variables, &mut rng) {
                    variables.set(*slot, value);
                    value.write_text(&mut out);
                }
            }
            Command::Sleep(sleep) => drop(sleep.duration(&variables)),
            Command::Sql(statement) => {
                statement.write_simple(&variables, &mut out);
                for slot in &statement.parameters {
                    variables.write_parameter(*slot, &mut out);
                }
            }
            _ => {}
        }
        out.clear();
    }
});
