//! Any text as a script: it is parsed, and what parses is evaluated and rendered, made-up rows and
//! binary values too. Nothing may panic, hang or exhaust the stack.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgdyno_load::script::{
    BinaryType, Command, Request, Rng, Rows, Source, Statement, Variables, eval, parse,
};

/// Types of every kind, and one that is not known.
const OIDS: [u32; 10] = [16, 20, 21, 23, 25, 26, 700, 701, 2950, 1700];

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
            Command::Array(array) => drop(array.set(&mut variables, &mut rng)),
            Command::Csv(table) => table.set(1, 2, 3, &mut variables),
            Command::Sleep(sleep) => drop(sleep.duration(&variables)),
            Command::Sql(statement) => {
                if let Some(request) = &statement.request {
                    send(request, &variables, &mut out);
                }
                statement.write_simple(&variables, &mut out);
                for slot in &statement.parameters {
                    variables.write_parameter(*slot, &mut out);
                    for kind in OIDS.into_iter().filter_map(BinaryType::of) {
                        kind.write(variables.parameter(*slot), &mut out);
                    }
                }
                let _ = statement.unpipable();
                if let Some(rows) = &statement.rows {
                    render(statement, rows, &mut variables, &mut rng, &mut out);
                }
            }
            _ => {}
        }
        out.clear();
    }
});

/// A request, and a look at a response that is the same text.
fn send(request: &Request, variables: &Variables, out: &mut Vec<u8>) {
    let _ = request.write_target(variables, out);
    let _ = request.write_headers(variables, out, |_| {});
    let _ = request.write_body(variables, out);
    for extract in &request.extracts {
        let _ = extract.in_body(out);
    }
    let body = std::mem::take(out);
    let _ = request.mismatch(&body, variables, out);
    let _ = (request.keeps_body(), request.wants(200), request.is_idempotent());
}

/// A few of the rows, in each of the ways.
fn render(
    statement: &Statement,
    rows: &Rows,
    variables: &mut Variables,
    rng: &mut Rng,
    out: &mut Vec<u8>,
) {
    for number in 0..3 {
        let _ = rows.write_copy(number, variables, rng, out);
    }
    let count = rows.count(statement, variables).unwrap_or(3).min(100);
    drop(statement.parameterized_rows(rows, count));
    variables.remember();
    let _ = statement.write_simple_rows(variables, rng, out);
    variables.restore();
}
