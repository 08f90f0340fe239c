//! Requests in scripts: their bodies, their checks, variables within words, and lines of files.

use pgdyno_load::script::{Command, Names, Request, Source, Value, Variables, parse};

/// The first request of a script, and the variables of a client that has come to it.
fn first(text: &str) -> (Request, Variables) {
    let source = Source {
        name: "a",
        text,
        file: "a",
    };
    let group = parse(&[source], &["who"]).expect("a script");
    let mut variables = Variables::new(&group.names);
    variables.set(Names::TXN, Value::Int(0));
    if let Some(slot) = group.names.find("who") {
        variables.set_text(slot, b"x y");
    }
    for command in &group.scripts[0].commands {
        match command {
            Command::Csv(table) => table.set(1, 3, 2, &mut variables),
            Command::Sql(statement) => {
                let request = statement.request.as_ref().expect("a request");
                return ((**request).clone(), variables);
            }
            _ => {}
        }
    }
    panic!("no request");
}

fn target(text: &str) -> String {
    let (request, variables) = first(text);
    let mut out = Vec::new();
    request.write_target(&variables, &mut out).expect("defined");
    String::from_utf8(out).expect("ASCII")
}

fn body(text: &str) -> String {
    let (request, variables) = first(text);
    let mut out = Vec::new();
    assert!(request.write_body(&variables, &mut out).expect("defined"));
    String::from_utf8(out).expect("UTF-8")
}

fn complaint(text: &str) -> String {
    let source = Source {
        name: "a",
        text,
        file: "a",
    };
    parse(&[source], &[]).expect_err("refused").to_string()
}

#[test]
fn braces_end_a_name() {
    assert_eq!(target("\\get /a:{who}b/:who"), "/ax%20yb/x%20y");
    assert_eq!(target("\\get :{who}b"), "x%20yb");
    assert_eq!(target("\\get /:{nobody}/:{who/:{}"), "/:{nobody}/:{who/:{}");
}

#[test]
fn further_lines_of_a_body_are_lines() {
    let text = "\\post /a\n\\body {\n\\body \"who\": \":{who}\"\n\\body }\n";
    assert_eq!(body(text), "{\n\"who\": \"x y\"\n}");
}

#[test]
fn texts_may_begin_with_any_character() {
    assert_eq!(body("\\post /a\n\\body éa\\é \\\n ü"), "éa\\é   ü");
}

#[test]
fn bodies_of_responses_are_judged_by_every_line() {
    let (request, variables) = first("\\get /a\n\\contains :who\n\\lacks no\n\\matches [0-9]+z\n");
    assert!(request.keeps_body());
    let mut text = Vec::new();
    let mut judged = |body: &str| request.mismatch(body.as_bytes(), &variables, &mut text);
    assert_eq!(judged("x y 12z"), None);
    assert_eq!(
        judged("12z").as_deref(),
        Some("the response does not contain \"x y\"")
    );
    assert_eq!(
        judged("x y 12z no").as_deref(),
        Some("the response contains \"no\"")
    );
    assert_eq!(
        judged("x y z").as_deref(),
        Some("nothing in the response matches [0-9]+z")
    );
}

#[test]
fn lines_of_a_file_go_round() {
    // Transaction 2 of client 1 among 3: turn 7.
    let text = "\\csv 'a b.csv' p q = [[\"0\",\"a\"],[\"1\",\"b c\"],[\"2\",\"\"]]\n\\get /:p/:q";
    assert_eq!(target(text), "/1/b%20c");
}

#[test]
fn wrong_words_are_refused() {
    for (text, wanted) in [
        ("\\csv", ":1:1: \\csv needs a file and variables"),
        (
            "\\csv a.csv = [[]]",
            ":1:1: \\csv needs a file and variables",
        ),
        ("\\csv a.csv 1x = []", ":1:12: invalid variable name \"1x\""),
        (
            "\\csv a.csv x",
            ":1:1: \\csv: the lines of a.csv are not there",
        ),
        ("\\csv a.csv x = []", ":1:1: \\csv: a.csv is empty"),
        (
            "\\csv a.csv x = [[\"1\"],[]]",
            ":1:1: \\csv: line 2 of a.csv has 0 values, and 1 are wanted",
        ),
        ("\\csv a.csv x = {", ":1:16: \\csv: the lines are not valid"),
        ("\\csv 'a.csv x", ":1:6: this text is never closed"),
        ("\\forget all", ":1:9: \\forget does not take \"all\""),
        (
            "\\get /a\n\\matches (",
            ":2:10: the regular expression is not valid",
        ),
        ("\\get /a\n\\lacks", ":2:1: \\lacks needs a text"),
        ("\\lacks x", ":1:1: this must follow a request"),
    ] {
        let found = complaint(text);
        assert!(found.contains(wanted), "{text}: {found}");
    }
}
