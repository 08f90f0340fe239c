//! Laws that hold for every script: nothing panics, splitting is stable, precedence and parentheses
//! agree, arithmetic agrees with an independent model, random values stay in their range.

use pgdyno_load::script::{Command, Group, Rng, Source, Value, Variables, eval, parse};
use proptest::prelude::*;

fn group(text: &str) -> Option<Group> {
    parse(
        &[Source {
            name: "t",
            text,
            file: "t",
        }],
        &["x"],
    )
    .ok()
}

/// The value of an expression; `None` if it is refused or has none.
fn value(expression: &str, rng: &mut Rng) -> Option<Value> {
    let group = group(&format!("\\set y {expression}\nselect 1"))?;
    let mut variables = Variables::new(&group.names);
    variables.set_text(group.names.find("x")?, b"7");
    match &group.scripts[0].commands[..] {
        [Command::Set { expr, .. }, Command::Sql(_)] => eval(expr, &variables, rng).ok(),
        _ => None,
    }
}

/// Runs whatever parses: no evaluation, sleep or rendering may panic.
fn exercise(text: &str) {
    let Some(group) = group(text) else { return };
    let script = &group.scripts[0];
    assert_eq!(script.commands.len(), script.origins.len());
    let mut variables = Variables::new(&group.names);
    let mut rng = Rng::new(1);
    let mut out = Vec::new();
    for command in &script.commands {
        assert!(
            command
                .target()
                .is_none_or(|to| to <= script.commands.len())
        );
        match command {
            Command::Set { slot, expr } => {
                if let Ok(value) = eval(expr, &variables, &mut rng) {
                    variables.set(*slot, value);
                }
            }
            Command::Array(array) => drop(array.set(&mut variables, &mut rng)),
            Command::Sleep(sleep) => drop(sleep.duration(&variables)),
            Command::Sql(statement) => {
                out.clear();
                statement.write_simple(&variables, &mut out);
                for slot in &statement.parameters {
                    variables.write_parameter(*slot, &mut out);
                }
                if let Some(rows) = &statement.rows {
                    let _ = rows.write_copy(0, &mut variables, &mut rng, &mut out);
                    let _ = statement.write_simple_rows(&mut variables, &mut rng, &mut out);
                    let count = rows.count(statement, &variables).unwrap_or(1).min(10);
                    let text = statement.parameterized_rows(rows, count);
                    assert!(text.len() >= statement.parameterized.len());
                }
            }
            Command::Start(rounds) => drop(rounds.start(&mut variables)),
            Command::Round { rounds, .. } => drop(rounds.next(&mut variables)),
            _ => {}
        }
    }
}

/// Pieces that scripts are made of, to get further than random characters do.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "\\set ",
        "\\if ",
        "\\elif ",
        "\\else",
        "\\endif",
        "\\for i ",
        "\\endfor",
        "\\gset ",
        "\\aset",
        "\\sleep ",
        "\\expect ",
        "\\startpipeline",
        "\\syncpipeline",
        "\\rows ",
        "\\array ",
        "a",
        ":a[",
        "[",
        "]",
        "or success",
        "random_text(",
        "text_of(",
        "array_of(",
        "document_of(",
        "range_of(",
        "timestamp(",
        "copy x from stdin",
        "values",
        ":rows",
        ":row",
        "\\endpipeline",
        "\\;",
        "\\:",
        "\\",
        "\n",
        "\r\n",
        " ",
        ";",
        "select ",
        "x",
        ":x",
        "::",
        ":",
        "'",
        "\"",
        "$$",
        "$a$",
        "$1",
        "E'",
        "--",
        "/*",
        "*/",
        "(",
        ")",
        "1",
        "0.5",
        "1e308",
        "9223372036854775807",
        "9223372036854775808",
        "+",
        "-",
        "*",
        "/",
        "%",
        "~",
        "<<",
        ">",
        "=",
        "<>",
        "and ",
        "or ",
        "not ",
        "is ",
        "null",
        "true",
        "case ",
        "when ",
        "then ",
        "end ",
        "random(",
        "random_zipfian(",
        "permute(",
        "least(",
        "hash(",
        ",",
        "é",
        "ms",
        "42P01",
        "create ",
        "function ",
        "begin ",
        "end;",
        "\u{feff}",
        "\t",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_text_makes_it_panic(text in "\\PC*") {
        exercise(&text);
    }

    #[test]
    fn no_bytes_that_are_text_make_it_panic(bytes: Vec<u8>) {
        exercise(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_soup_makes_it_panic(text in soup()) {
        exercise(&text);
        exercise(&format!("\\set y {text}\nselect 1"));
    }

    #[test]
    fn statements_can_be_split_again(text in soup()) {
        let Some(group) = group(&text) else { return Ok(()) };
        for statement in group.scripts[0].statements() {
            // A `\;` is not written back, so such a statement falls into its parts.
            if statement.text.contains(';') || statement.text.contains('\\') {
                continue;
            }
            let again = parse(
                &[Source { name: "t", text: &format!("{}\n;", statement.text), file: "t" }],
                &["x"],
            );
            let texts: Vec<String> = again
                .expect("it was accepted before")
                .scripts[0]
                .statements()
                .map(|statement| statement.text.clone())
                .collect();
            prop_assert_eq!(texts, vec![statement.text.clone()]);
        }
    }
}

/// Integer expressions, evaluated here in their own way.
#[derive(Debug, Clone)]
enum Tree {
    Number(i32),
    Variable,
    Negative(Box<Tree>),
    Complement(Box<Tree>),
    Binary(&'static str, Box<Tree>, Box<Tree>),
}

const OPERATORS: [(&str, u8); 8] = [
    ("|", 1),
    ("#", 1),
    ("&", 1),
    ("+", 2),
    ("-", 2),
    ("*", 3),
    ("/", 3),
    ("%", 3),
];

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![any::<i32>().prop_map(Tree::Number), Just(Tree::Variable)];
    leaf.prop_recursive(6, 40, 2, |inner| {
        let operator = prop::sample::select(OPERATORS.map(|(symbol, _)| symbol).to_vec());
        prop_oneof![
            inner
                .clone()
                .prop_map(|tree| Tree::Negative(Box::new(tree))),
            inner
                .clone()
                .prop_map(|tree| Tree::Complement(Box::new(tree))),
            (operator, inner.clone(), inner).prop_map(|(operator, left, right)| {
                Tree::Binary(operator, Box::new(left), Box::new(right))
            }),
        ]
    })
}

impl Tree {
    /// Exact in 128 bits, and no value if it leaves 64.
    fn value(&self) -> Option<i64> {
        let exact: i128 = match self {
            Tree::Number(number) => i128::from(*number),
            Tree::Variable => 7,
            Tree::Negative(tree) => -i128::from(tree.value()?),
            Tree::Complement(tree) => !i128::from(tree.value()?),
            Tree::Binary(operator, left, right) => {
                let (left, right) = (i128::from(left.value()?), i128::from(right.value()?));
                match *operator {
                    "+" => left + right,
                    "-" => left - right,
                    "*" => left * right,
                    "/" => left.checked_div(right)?,
                    "%" => left.checked_rem(right)?,
                    "|" => left | right,
                    "#" => left ^ right,
                    _ => left & right,
                }
            }
        };
        i64::try_from(exact).ok()
    }

    fn in_parentheses(&self) -> String {
        match self {
            Tree::Number(number) => format!("({number})"),
            Tree::Variable => "(:x)".to_owned(),
            Tree::Negative(tree) => format!("(-{})", tree.in_parentheses()),
            Tree::Complement(tree) => format!("(~{})", tree.in_parentheses()),
            Tree::Binary(operator, left, right) => {
                format!(
                    "({} {operator} {})",
                    left.in_parentheses(),
                    right.in_parentheses()
                )
            }
        }
    }

    /// With the parentheses that precedence makes necessary, where `min` is needed to go without.
    fn bare(&self, min: u8) -> String {
        let (text, power) = match self {
            Tree::Number(number) => (number.to_string(), if *number < 0 { 4 } else { 5 }),
            Tree::Variable => (":x".to_owned(), 5),
            Tree::Negative(tree) => (format!("- {}", tree.bare(4)), 4),
            Tree::Complement(tree) => (format!("~{}", tree.bare(2)), 1),
            Tree::Binary(operator, left, right) => {
                let power = OPERATORS
                    .iter()
                    .find(|(symbol, _)| symbol == operator)
                    .map_or(0, |o| o.1);
                // `~` reaches as far right as it can, so on the left it needs parentheses.
                let left = if matches!(**left, Tree::Complement(_)) && power > 1 {
                    format!("({})", left.bare(0))
                } else {
                    left.bare(power)
                };
                (
                    format!("{left} {operator} {}", right.bare(power + 1)),
                    power,
                )
            }
        };
        if power < min {
            format!("({text})")
        } else {
            text
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arithmetic_is_exact_or_refused(tree in tree()) {
        let found = value(&tree.in_parentheses(), &mut Rng::new(1));
        prop_assert_eq!(found, tree.value().map(Value::Int));
    }

    #[test]
    fn precedence_and_parentheses_agree(tree in tree()) {
        let bare = tree.bare(0);
        let found = value(&bare, &mut Rng::new(1));
        prop_assert_eq!(found, tree.value().map(Value::Int), "{}", bare);
    }

    #[test]
    fn random_values_stay_in_their_range(
        a: i64, b: i64, seed: u64,
        gaussian in 2.0..1e6_f64, exponential in 1e-12..1e6_f64, zipfian in 1.1..1000.0_f64,
    ) {
        let (min, max) = (a.min(b) / 2, a.max(b) / 2);
        let mut rng = Rng::new(seed);
        for expression in [
            format!("random({min}, {max})"),
            format!("random_gaussian({min}, {max}, {gaussian})"),
            format!("random_exponential({min}, {max}, {exponential})"),
            format!("random_zipfian({min}, {max}, {zipfian})"),
        ] {
            let found = value(&expression, &mut rng);
            let inside = matches!(found, Some(Value::Int(value)) if (min..=max).contains(&value));
            prop_assert!(inside || max - min == i64::MAX, "{}: {:?}", expression, found);
        }
    }

    #[test]
    fn permute_stays_in_its_range_and_is_injective(a: i64, b: i64, size in 1..i64::MAX, seed: i64) {
        let permuted = |at: i64| value(&format!("permute({at}, {size}, {seed})"), &mut Rng::new(1));
        let wrapped = |at: i64| (at.cast_unsigned() % size.cast_unsigned()).cast_signed();
        let (Some(Value::Int(first)), Some(Value::Int(second))) = (permuted(a), permuted(b)) else {
            return Err(TestCaseError::fail("no value"));
        };
        prop_assert!((0..size).contains(&first));
        prop_assert_eq!(first == second, wrapped(a) == wrapped(b));
    }
}
