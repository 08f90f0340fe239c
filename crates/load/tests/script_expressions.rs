//! Holds the evaluator to a table of expressions whose values come from pgbench.

use pgdyno_load::script::{Command, EvalError, Rng, Source, Value, Variables, eval, parse};

const TABLE: &str = include_str!("data/expressions.txt");

const VARIABLES: [(&str, &str); 11] = [
    ("i", "+3"),
    ("n", "null"),
    ("t", "t"),
    ("f", "of"),
    ("d", "1.0"),
    ("text", "bla"),
    ("octal", "010"),
    ("sci", "1e3"),
    ("default_seed", "42"),
    ("scale", "1"),
    ("client_id", "0"),
];

/// The value as pgbench writes it, or why there is none.
fn evaluate(expression: &str, rng: &mut Rng) -> Result<String, String> {
    let text = format!("\\set x {expression}\nselect :x");
    let defined = VARIABLES.map(|(name, _)| name);
    let source = Source {
        name: "test",
        text: &text,
        file: "test",
    };
    let group = parse(&[source], &defined).map_err(|error| error.to_string())?;
    let mut variables = Variables::new(&group.names);
    for (name, value) in VARIABLES {
        variables.set_text(group.names.find(name).expect("defined"), value.as_bytes());
    }
    let [Command::Set { expr, .. }, Command::Sql(_)] = &group.scripts[0].commands[..] else {
        panic!("not a \\set and a statement: {text}");
    };
    let value = eval(expr, &variables, rng).map_err(|error: EvalError| error.to_string())?;
    let mut out = Vec::new();
    Value::write_text(&value, &mut out);
    Ok(String::from_utf8(out).expect("ASCII"))
}

#[test]
fn expressions_have_the_values_that_pgbench_gives_them() {
    let mut wrong = Vec::new();
    let cases = TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in cases {
        let (expression, wanted) = line.rsplit_once(" => ").expect("expression => value");
        let found = evaluate(expression, &mut Rng::new(1));
        if found.as_deref().unwrap_or("error") != wanted {
            wrong.push(format!("{line}, but here: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
