//! Parsed scripts: statements, parameters, jumps; and the errors of wrong ones.

use pgdyno_load::script::{
    BUILTIN_NAMES, CaptureKind, Command, Group, HEIGHT_MAX, NESTING_MAX, Names, Rng,
    SCRIPT_BYTES_MAX, Script, ScriptError, Source, Statement, Value, Variables, builtin, eval,
    eval_truth, parse,
};

fn group(text: &str) -> Result<Group, ScriptError> {
    parse(
        &[Source {
            name: "test",
            text,
            file: "test.sql",
        }],
        &["given"],
    )
}

fn script(text: &str) -> Script {
    group(text)
        .unwrap_or_else(|error| panic!("{error}: {text}"))
        .scripts
        .remove(0)
}

fn texts(text: &str) -> Vec<String> {
    script(text)
        .statements()
        .map(|statement| statement.text.clone())
        .collect()
}

fn only(text: &str) -> Statement {
    let script = script(text);
    let mut statements = script.statements();
    let first = statements.next().expect("a statement").clone();
    assert!(
        statements.next().is_none(),
        "more than one statement: {text}"
    );
    first
}

#[test]
fn statements_end_where_pgbench_ends_them() {
    // Compared with what `pgbench --debug` of PostgreSQL 18 says that it sends.
    let cases: &[(&str, &[&str])] = &[
        ("select 1; select 2;", &["select 1", "select 2"]),
        ("select 1\n;\n\n select 2", &["select 1", "select 2"]),
        ("select ';'; select 2", &["select ';'", "select 2"]),
        (
            "select 'a''b;c'; select 2",
            &["select 'a''b;c'", "select 2"],
        ),
        ("select 'a\\'; select 2", &["select 'a\\'", "select 2"]),
        (
            r"select E'a\';b'; select 2",
            &[r"select E'a\';b'", "select 2"],
        ),
        (
            "select e'a' \n 'b\\';c'; select 2",
            &["select e'a' \n 'b\\';c'", "select 2"],
        ),
        (
            r"select xE'a;\' ; select 2",
            &[r"select xE'a;\'", "select 2"],
        ),
        (
            r"select U&'a;\0041'; select 2",
            &[r"select U&'a;\0041'", "select 2"],
        ),
        ("select \"a;b\"; select 2", &["select \"a;b\"", "select 2"]),
        ("select $$a;b$$; select 2", &["select $$a;b$$", "select 2"]),
        (
            "select $a$ ; $b$ ; $a$; select 2",
            &["select $a$ ; $b$ ; $a$", "select 2"],
        ),
        (
            "select a$b$c, $1; select 2",
            &["select a$b$c, $1", "select 2"],
        ),
        (
            "select /* ; /* ; */ ; */ 1; select 2",
            &["select /* ; /* ; */ ; */ 1", "select 2"],
        ),
        (
            "select 1 -- ; c\n; select 2",
            &["select 1 -- ; c", "select 2"],
        ),
        ("-- lead\n\nselect 1; -- trail\n", &["select 1"]),
        ("-- lead\n/*+ hint */ select 1;", &["/*+ hint */ select 1"]),
        ("select 1; /* trail */", &["select 1"]),
        ("select (1; 2); select 3;", &["select (1; 2)", "select 3"]),
        ("select 1); select 2;", &["select 1)", "select 2"]),
        (r"select 1 \; select 2;", &["select 1 ; select 2"]),
        (r"\; \; select 1", &["; ; select 1"]),
        (r"select \:given", &["select :given"]),
        (";", &[";"]),
        ("; ;", &[";", ";"]),
        ("begin; select 1; end;", &["begin", "select 1", "end"]),
        (
            "do $$ begin perform 1; end $$; select 2",
            &["do $$ begin perform 1; end $$", "select 2"],
        ),
        (
            "create or replace function f() returns int begin atomic select 1; end; select 2",
            &[
                "create or replace function f() returns int begin atomic select 1; end",
                "select 2",
            ],
        ),
        (
            "create procedure p() begin atomic select case when true then 1 end; end; select 2",
            &[
                "create procedure p() begin atomic select case when true then 1 end; end",
                "select 2",
            ],
        ),
        (
            "copy from_x to begin; select 2",
            &["copy from_x to begin", "select 2"],
        ),
        ("select 1\n\\set x 1\nselect 2", &["select 1", "select 2"]),
        ("select 1 \\set x 1\nselect 2", &["select 1", "select 2"]),
        (
            "select '\\set x 1'; select 2",
            &["select '\\set x 1'", "select 2"],
        ),
        (
            "select 1 \\\n, 2; select 3",
            &["select 1", ", 2", "select 3"],
        ),
        ("\\\nselect 1", &["select 1"]),
        (
            "\u{feff}select 'é;ß'; select 2",
            &["\u{feff}select 'é;ß'", "select 2"],
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(texts(text), *wanted, "{text}");
    }
}

#[test]
fn variables_become_parameters_in_order() {
    let cases = [
        ("select :given", "select $1", 1),
        ("select :given, :scale, :given", "select $1, $2, $3", 3),
        ("select :given::int", "select $1::int", 1),
        (
            "select 1::int, ::given, :::given",
            "select 1::int, ::given, :::given",
            0,
        ),
        ("select :given:given", "select $1$2", 2),
        (
            "select :given_too, :unknown",
            "select :given_too, :unknown",
            0,
        ),
        ("select '12:34'::time", "select '12:34'::time", 0),
        (
            "select x[1:n], '{\"a\":true}'",
            "select x[1:n], '{\"a\":true}'",
            0,
        ),
        (
            "select /* :given */ 1 -- :given",
            "select /* :given */ 1 -- :given",
            0,
        ),
        ("\\set é 1\nselect :é", "select $1", 1),
        ("select 1 \\gset p_", "select 1", 0),
    ];
    for (text, parameterized, parameters) in cases {
        let statement = only(text);
        assert_eq!(statement.parameterized, parameterized, "{text}");
        assert_eq!(statement.parameters.len(), parameters, "{text}");
        assert!(!statement.simple_only, "{text}");
    }
}

#[test]
fn what_only_the_simple_protocol_can_say_is_marked() {
    for text in [
        "select ':given'",
        "select \":given\"",
        "select $$ :given $$",
        r"select E'\' :given'",
        r"select 1 \; select 2",
    ] {
        assert!(only(text).simple_only, "{text}");
    }
    assert!(!only("select ':unknown'").simple_only);
}

#[test]
fn the_simple_protocol_gets_values_in_place() {
    let group = group("select :given, ':given', :scale, :x \\gset").expect("a script");
    let statement = group.scripts[0].statements().next().expect("one");
    let mut variables = Variables::new(&group.names);
    variables.set_text(group.names.find("given").expect("used"), b"it's");
    variables.set(Names::SCALE, Value::Double(0.1));
    let mut out = Vec::new();
    statement.write_simple(&variables, &mut out);
    assert_eq!(
        out, b"select it's, 'it's', 0.1, :x",
        "as pgbench: no quoting, undefined is left"
    );
}

#[test]
fn any_column_that_gset_may_store_is_a_variable() {
    let script = script("select 1 as a \\gset p_\nselect :p_a, :p_b, :q_a \\aset");
    let statements: Vec<&Statement> = script.statements().collect();
    let capture = statements[0].capture.as_ref().expect("gset");
    assert_eq!(
        (capture.kind, capture.prefix.as_str()),
        (CaptureKind::One, "p_")
    );
    let capture = statements[1].capture.as_ref().expect("aset");
    assert_eq!(
        (capture.kind, capture.prefix.as_str()),
        (CaptureKind::Last, "")
    );
    assert_eq!(statements[1].parameterized, "select $1, $2, $3");
}

#[test]
fn gset_after_a_semicolon_belongs_to_the_statement_before() {
    assert!(only("select 1 as a;\n\\gset").capture.is_some());
}

#[test]
fn scripts_of_a_group_share_variables() {
    let source = |name, text| Source {
        name,
        text,
        file: name,
    };
    let sources = [
        source("a", "select :x"),
        source("b", "\\set x 1\nselect :x"),
    ];
    let group = parse(&sources, &[]).expect("two scripts");
    let slots: Vec<_> = group
        .scripts
        .iter()
        .map(|script| script.statements().next().expect("one").parameters[0])
        .collect();
    assert_eq!(slots[0], slots[1]);
    assert_eq!(group.names.name(slots[0]), "x");
    assert_eq!(group.scripts[0].variables_unset, ["x"]);
    assert!(group.scripts[1].variables_unset.is_empty());
}

#[test]
fn variables_that_a_script_needs_are_listed_once_in_order() {
    let text = "\\set y :b + :scale\n\\sleep :pause ms\nselect :a, :b, :y, ':quoted' \\gset p_\n\
                select :p_x, :p, :c";
    assert_eq!(script(text).variables_unset, ["b", "pause", "a", "p", "c"]);
}

#[test]
fn expected_errors_belong_to_the_next_statement() {
    let script =
        script("\\expect 42P01\n-- comment\nselect 1; select 2;\n\\expect 23505\nselect 3");
    let expects: Vec<_> = script
        .statements()
        .map(|statement| statement.expect)
        .collect();
    assert_eq!(expects, [Some(*b"42P01"), None, Some(*b"23505")]);
}

#[test]
fn expected_errors_may_be_absent_if_the_script_says_so() {
    let script = script("\\expect 40P01 or success\nselect 1;\n\\expect 42P01\nselect 2");
    let may_succeed: Vec<_> = script
        .statements()
        .map(|statement| statement.may_succeed)
        .collect();
    assert_eq!(may_succeed, [true, false]);
}

#[test]
fn arrays_are_made_and_their_elements_found() {
    let text = "\\set n 3\n\\array a :n (:row + 1) * 10\n\\array none 0 1\n\\set x :a[2] + :a[:n]\n\
                \\set y :a[:n + 1]\n\\set z :none[1]\nselect :a, ':a';";
    let group = parse(
        &[Source {
            name: "t",
            text,
            file: "t",
        }],
        &[],
    )
    .expect("it is right");
    let mut variables = Variables::new(&group.names);
    let mut rng = Rng::new(1);
    for command in &group.scripts[0].commands {
        match command {
            Command::Set { slot, expr } => {
                let value = eval(expr, &variables, &mut rng).expect("a value");
                variables.set(*slot, value);
            }
            Command::Array(array) => array.set(&mut variables, &mut rng).expect("an array"),
            Command::Sql(statement) => {
                let mut out = Vec::new();
                statement.write_simple(&variables, &mut out);
                assert_eq!(out, b"select '{10,20,30}', '{10,20,30}'");
            }
            _ => {}
        }
    }
    let text = |name| {
        let mut out = Vec::new();
        variables.write_text(group.names.find(name).expect("there"), &mut out);
        String::from_utf8(out).expect("ASCII")
    };
    assert_eq!(text("a"), "{10,20,30}");
    assert_eq!(text("none"), "{}");
    assert_eq!(text("x"), "50");
    assert_eq!((text("y"), text("z")), ("NULL".into(), "NULL".into()));
}

/// The statements that run, with every condition replaced by its value in `truth`.
fn run(script: &Script, truth: &[bool]) -> Vec<String> {
    let (mut at, mut asked, mut sent) = (0, 0, Vec::new());
    while let Some(command) = script.commands.get(at) {
        at += 1;
        match command {
            Command::Sql(statement) => sent.push(statement.text.clone()),
            Command::Jump { target } => at = *target,
            Command::JumpUnless { target, .. } => {
                if !truth[asked] {
                    at = *target;
                }
                asked += 1;
            }
            _ => {}
        }
    }
    sent
}

#[test]
fn conditions_choose_one_branch() {
    let text = "\\if 1\nA;\n\\elif 2\nB;\n\\if 3\nC;\n\\endif\n\\else\nD;\n\\endif\nE;";
    let script = script(text);
    assert_eq!(run(&script, &[true]), ["A", "E"]);
    assert_eq!(run(&script, &[false, true, true]), ["B", "C", "E"]);
    assert_eq!(run(&script, &[false, true, false]), ["B", "E"]);
    assert_eq!(run(&script, &[false, false]), ["D", "E"]);
}

#[test]
fn an_if_at_the_very_end_jumps_to_the_end() {
    let script = script("\\if 0\nselect 1;\n\\endif");
    assert_eq!(script.commands.len(), 2);
    assert!(matches!(
        script.commands[0],
        Command::JumpUnless { target: 2, .. }
    ));
}

/// The texts that a script sends, with the values of its variables.
fn sent(text: &str) -> Result<Vec<String>, String> {
    let group = group(text).map_err(|error| error.to_string())?;
    let mut variables = Variables::new(&group.names);
    let mut rng = Rng::new(1);
    let (mut at, mut sent) = (0, Vec::new());
    while let Some(command) = group.scripts[0].commands.get(at) {
        at += 1;
        match command {
            Command::Set { slot, expr } => {
                let value = eval(expr, &variables, &mut rng).map_err(|error| error.to_string())?;
                variables.set(*slot, value);
            }
            Command::Start(rounds) => rounds
                .start(&mut variables)
                .map_err(|error| error.to_string())?,
            Command::Round { rounds, target } if !rounds.next(&mut variables).expect("started") => {
                at = *target;
            }
            Command::JumpUnless { condition, target }
                if !eval_truth(condition, &variables, &mut rng).expect("a truth") =>
            {
                at = *target;
            }
            Command::Jump { target } => at = *target,
            Command::Sql(statement) => {
                let mut out = Vec::new();
                statement.write_simple(&variables, &mut out);
                sent.push(String::from_utf8(out).expect("ASCII"));
            }
            _ => {}
        }
    }
    Ok(sent)
}

#[test]
fn rounds_are_counted_from_one() {
    let each = |text: &str| sent(text).expect("valid");
    assert_eq!(
        each("\\for i 3\nA :i;\n\\endfor\nB;"),
        ["A 1", "A 2", "A 3", "B"]
    );
    assert_eq!(each("\\set n 0\n\\for i :n\nA :i;\n\\endfor\nB;"), ["B"]);
    // The number of rounds is read once, and changes of the variable change no round.
    let text = "\\set n 2\n\\for i :n\nA :i;\n\\set n 9\n\\set i 7\nB :i;\n\\endfor";
    assert_eq!(each(text), ["A 1", "B 7", "A 2", "B 7"]);
    let nested = "\\for i 2\n\\for j :i\nA :i :j;\n\\endfor\n\\endfor\n\\for j 1\nB :j;\n\\endfor";
    assert_eq!(each(nested), ["A 1 1", "A 2 1", "A 2 2", "B 1"]);
    let chosen = "\\for i 3\n\\if :i = 2\nA :i;\n\\else\nB :i;\n\\endif\n\\endfor";
    assert_eq!(each(chosen), ["B 1", "A 2", "B 3"]);
}

#[test]
fn rounds_that_cannot_be_are_refused() {
    let refused = |text: &str| sent(text).expect_err("refused");
    assert!(refused("\\for i 2\nA;").contains("\\for without \\endfor"));
    assert!(refused("A;\n\\endfor").contains("\\endfor without \\for"));
    assert!(refused("\\for i 2\n\\if 1\nA;\n\\endfor\n\\endif").contains("\\endfor without"));
    assert!(refused("\\if 1\n\\for i 2\n\\endif\nA;\n\\endfor").contains("\\endif without"));
    assert!(refused("\\for i 2\n\\else\n\\endfor\nA;").contains("\\else without"));
    let same = "\\for i 2\n\\for i 2\nA;\n\\endfor\n\\endfor";
    assert!(refused(same).contains("another one whose variable is \"i\""));
    assert!(refused("\\for i\nA;\n\\endfor").contains("\\for needs a variable and a count"));
    assert!(refused("\\for 1 i\nA;\n\\endfor").contains("invalid variable name"));
    assert!(refused("\\for i 1 + 1\nA;\n\\endfor").contains("does not take \"+\""));
    assert!(refused("\\for i x\nA;\n\\endfor").contains("not a number of rounds"));
    assert!(refused("\\for i 65536\nA;\n\\endfor").contains("65536 rounds are too many"));
    assert!(refused("\\set n -1\n\\for i :n\nA;\n\\endfor").contains("-1 is not a number"));
    assert!(refused("\\set n 65536\n\\for i :n\nA;\n\\endfor").contains("too many"));
}

#[test]
fn commands_know_their_lines() {
    let script = script("-- one\n\\set x 1 + \\\n 2\n\nselect\n 1;\n select 2; select 3");
    let lines: Vec<u32> = script.origins.iter().map(|origin| origin.line).collect();
    assert_eq!(lines, [2, 5, 7, 7]);
}

#[test]
fn sleeps_have_units() {
    for (text, micros) in [
        ("\\sleep 2", 2_000_000),
        ("\\sleep 2 s", 2_000_000),
        ("\\sleep 2ms", 2_000),
        ("\\sleep +2 MS", 2_000),
        ("\\sleep 2us", 2),
        ("\\sleep -2 us", 0),
        ("\\sleep :given ms", 7_000),
        ("\\sleep 99999999999999999999 s", u64::MAX),
    ] {
        let group = group(&format!("{text}\nselect 1")).expect("a script");
        let mut variables = Variables::new(&group.names);
        variables.set_text(group.names.find("given").expect("given"), b"7.9");
        let Command::Sleep(sleep) = group.scripts[0].commands[0] else {
            panic!("{text}")
        };
        let found = sleep.duration(&variables).expect("a time").as_micros();
        assert_eq!(found, u128::from(micros), "{text}");
    }
}

#[test]
fn mistakes_have_a_place_a_message_and_a_hint() {
    let cases = [
        ("", 1, 1, "the script is empty", "a statement"),
        ("-- nothing\n", 1, 1, "the script is empty", ""),
        (
            "select 1;\n  select 'ü', 'x",
            2,
            15,
            "quote is never closed",
            "",
        ),
        (
            "select $tag$ $tagg$",
            1,
            8,
            "$tag$ quote is never closed",
            "",
        ),
        ("select 1 /* /* */", 1, 10, "comment is never closed", ""),
        ("select (\n(1)", 1, 8, "parenthesis is never closed", ""),
        ("select 1;\n\\set", 2, 1, "\\set needs a variable", ""),
        ("\\set x", 1, 7, "found the end of the line", ""),
        (
            "\\set 1x 2",
            1,
            6,
            "invalid variable name \"1x\"",
            "letters",
        ),
        ("\\set x 1 +", 1, 11, "found the end of the line", ""),
        (
            "\\set é 1 + \\\n   ;",
            2,
            4,
            "unexpected character ';'",
            "without a semicolon",
        ),
        (
            "\\set x 'a'",
            1,
            8,
            "unexpected character",
            "no text values",
        ),
        (
            "\\set x randmo(1, 2)",
            1,
            8,
            "unknown function \"randmo\"",
            "\"random\"",
        ),
        ("\\set x abs(1, 2)", 1, 8, "abs takes 1 argument, not 2", ""),
        (
            "\\set x greatest()",
            1,
            8,
            "greatest takes 1 to 16 arguments, not 0",
            "",
        ),
        (
            "\\set x permute(1)",
            1,
            8,
            "permute takes 2 or 3 arguments, not 1",
            "",
        ),
        (
            "\\set x 1 < 2 < 3",
            1,
            14,
            "comparisons cannot be chained",
            "and",
        ),
        (
            "\\set x 9223372036854775808",
            1,
            8,
            "bigint constant overflow",
            "",
        ),
        ("\\set x 1e999", 1, 8, "double constant overflow", ""),
        ("\\set x case when 1 then 2", 1, 26, "when, else or end", ""),
        ("\\set x (1", 1, 10, "\")\"", ""),
        (
            "\\set x :1",
            1,
            8,
            "unexpected character ':'",
            "does not start with a digit",
        ),
        (
            "\\sett x 1",
            1,
            1,
            "unknown meta-command \"\\sett\"",
            "\"set\"",
        ),
        (
            "\\bogus db",
            1,
            1,
            "unknown meta-command",
            "these are known",
        ),
        (
            "\\setshell x echo 1",
            1,
            1,
            "\\setshell is not supported",
            "\\gset",
        ),
        ("\\shell echo 1", 1, 1, "\\shell is not supported", "\\gset"),
        ("\\sleep", 1, 1, "\\sleep needs a time", ""),
        (
            "\\sleep ten ms",
            1,
            8,
            "\"ten\" is not a whole number",
            "\\sleep 10 ms",
        ),
        (
            "\\sleep 1 week",
            1,
            10,
            "unknown time unit \"week\"",
            "us, ms or s",
        ),
        (
            "\\sleep 1.5 s",
            1,
            8,
            "\"1.5\" is not a whole number",
            "write \\sleep 1500 ms",
        ),
        (
            "\\sleep 1 ms now",
            1,
            13,
            "\\sleep does not take \"now\"",
            "",
        ),
        ("\\else\nselect 1", 1, 1, "\\else without \\if", ""),
        ("\\endif", 1, 1, "\\endif without \\if", ""),
        (
            "\\if 1\n\\else\n\\else\n\\endif",
            3,
            1,
            "\\else after \\else",
            "",
        ),
        (
            "\\if 1\n\\else\n\\elif 1\n\\endif",
            3,
            1,
            "\\elif after \\else",
            "",
        ),
        (
            "select 1;\n \\if 1\nselect 2;",
            2,
            2,
            "\\if without \\endif",
            "",
        ),
        (
            "\\if 1\n\\endif now",
            2,
            8,
            "\\endif does not take \"now\"",
            "",
        ),
        ("\\gset", 1, 1, "\\gset must follow an SQL statement", ""),
        (
            "select 1 \\gset\n\\gset",
            2,
            1,
            "\\gset must follow an SQL statement",
            "",
        ),
        (
            "\\if 1\nselect 1;\n\\endif\n\\aset",
            4,
            1,
            "\\aset must follow an SQL statement",
            "",
        ),
        (
            "select 1 \\gset 1a",
            1,
            16,
            "invalid variable name \"1a\"",
            "",
        ),
        (
            "select 1 \\gset a b",
            1,
            18,
            "\\gset does not take \"b\"",
            "",
        ),
        ("\\endpipeline\nselect 1", 1, 1, "outside a pipeline", ""),
        (
            "\\startpipeline\n\\startpipeline\nselect 1",
            2,
            1,
            "inside a pipeline",
            "",
        ),
        (
            "select 1;\n\\startpipeline\nselect 1",
            2,
            1,
            "ends inside a pipeline",
            "\\endpipeline",
        ),
        (
            "\\startpipeline\nselect 1 \\; select 2;\n\\endpipeline",
            2,
            1,
            "joined to another by \\; cannot be used in a pipeline",
            "",
        ),
        (
            "\\startpipeline\n  \\expect 23505\nselect 1;\n\\endpipeline",
            2,
            3,
            "\\expect cannot be used in a pipeline",
            "",
        ),
        (
            "\\startpipeline\nselect 1 \\gset\n\\endpipeline",
            2,
            10,
            "in a pipeline",
            "",
        ),
        (
            "\\expect 42P01",
            1,
            1,
            "directly before an SQL statement",
            "",
        ),
        (
            "\\expect 42P01\n\\set x 1\nselect 1",
            1,
            1,
            "directly before an SQL statement",
            "",
        ),
        ("\\expect\nselect 1", 1, 1, "\\expect needs an SQLSTATE", ""),
        (
            "\\expect 42p01\nselect 1",
            1,
            9,
            "not the SQLSTATE of an error",
            "42P01",
        ),
        (
            "\\expect 00000\nselect 1",
            1,
            9,
            "not the SQLSTATE of an error",
            "",
        ),
        (
            "\\expect 40P01 or not\nselect 1",
            1,
            15,
            "\\expect does not take \"or\"",
            "or success",
        ),
        (
            "\\expect 40P01 or success too\nselect 1",
            1,
            26,
            "\\expect does not take \"too\"",
            "",
        ),
        ("\\array", 1, 1, "\\array needs a variable, a count", ""),
        (
            "\\array a many 1\nselect 1",
            1,
            10,
            "\"many\" is not a number of elements",
            "\\array ids 10",
        ),
        (
            "\\array a 65536 1\nselect 1",
            1,
            10,
            "65536 elements are too many",
            "",
        ),
        (
            "\\set x :a[1\nselect 1",
            1,
            12,
            "found the end of the line where \"]\"",
            "",
        ),
        (
            "\\set x text_of(1)\nselect 1",
            1,
            8,
            "text_of takes 2 arguments",
            "",
        ),
        ("select '\0'", 1, 9, "zero byte", ""),
    ];
    for (text, line, column, message, hint) in cases {
        let error = group(text)
            .err()
            .unwrap_or_else(|| panic!("accepted: {text:?}"));
        assert_eq!(
            (error.line, error.column),
            (line, column),
            "{text:?}: {error}"
        );
        assert!(error.message.contains(message), "{text:?}: {error}");
        assert!(
            error.hint.as_deref().unwrap_or_default().contains(hint),
            "{text:?}: {error:?}"
        );
        assert!(
            error
                .to_string()
                .starts_with(&format!("test.sql:{line}:{column}: "))
        );
        assert!(!error.message.ends_with('.'));
    }
}

#[test]
fn limits_are_kept() {
    let accepted = |text: &str| group(text).is_ok();
    let terms = |count: usize| format!("\\set x 1{}\nselect 1", " + 1".repeat(count - 1));
    assert!(accepted(&terms(HEIGHT_MAX)));
    assert!(!accepted(&terms(HEIGHT_MAX + 1)));
    let nested = |count| {
        format!(
            "\\set x {}1{}\nselect 1",
            "(".repeat(count),
            ")".repeat(count)
        )
    };
    assert!(accepted(&nested(NESTING_MAX - 1)));
    assert!(!accepted(&nested(NESTING_MAX)));
    assert!(!accepted(&nested(100_000)));
    for prefix in ["-", "~", "not ", "case when ", "abs(", "1 is null = "] {
        assert!(
            !accepted(&format!("\\set x {}1", prefix.repeat(20_000))),
            "{prefix}"
        );
    }
    let parameters = |count| format!("select least({}1)", ":given, ".repeat(count));
    assert!(accepted(&parameters(255)));
    assert!(!accepted(&parameters(256)), "as pgbench");
    assert!(accepted(&format!(
        "select '{}'",
        "x".repeat(SCRIPT_BYTES_MAX - 100)
    )));
    assert!(!accepted(&format!(
        "select '{}'",
        "x".repeat(SCRIPT_BYTES_MAX)
    )));
    let blocks = 20_000;
    let blocks = format!(
        "{}select 1;\n{}",
        "\\if 1\n".repeat(blocks),
        "\\endif\n".repeat(blocks)
    );
    assert!(accepted(&blocks));
}

#[test]
fn the_highest_tree_can_be_evaluated() {
    use pgdyno_load::script::{Rng, eval};
    let evaluate = || {
        let text = format!("\\set x 1{}\nselect 1", " + 1".repeat(HEIGHT_MAX - 1));
        let group = group(&text).expect("a script");
        let Command::Set { expr, .. } = &group.scripts[0].commands[0] else {
            panic!("no \\set")
        };
        let value = eval(expr, &Variables::new(&group.names), &mut Rng::new(1));
        assert_eq!(value, Ok(Value::Int(HEIGHT_MAX as i64)));
    };
    // The stack of a thread of the load.
    let thread = std::thread::Builder::new().stack_size(16 << 20);
    let evaluated = thread.spawn(evaluate).expect("a thread").join();
    evaluated.expect("evaluated");
}

#[test]
fn a_script_need_not_send_anything() {
    assert!(group("\\set x 1").is_ok());
    assert!(group("\\sleep 1 ms").is_ok());
}

#[test]
fn what_scripts_cannot_have_is_answered_with_what_they_can() {
    let hint = |text: &str| {
        let error = group(text).expect_err(text);
        format!("{} | {}", error.message, error.hint.unwrap_or_default())
    };
    for (text, wanted) in [
        (
            "\\sleep 1.5 s",
            "\"1.5\" is not a whole number | write \\sleep 1500 ms",
        ),
        (
            "\\sleep 0.25ms",
            "\"0.25\" is not a whole number | write \\sleep 250 us",
        ),
        (
            "\\sleep 2.5",
            "\"2.5\" is not a whole number | write \\sleep 2500 ms",
        ),
        (
            "\\i other.sql",
            "\\i is a psql command that scripts do not support | pass each file with -f",
        ),
        (
            "\\timing on",
            "\\timing is a psql command that scripts do not support | leave it out: the time of",
        ),
        (
            "\\copy t from 'f'",
            "\\copy is a psql command that scripts do not support | write copy t from stdin",
        ),
        (
            "\\echo hello",
            "\\echo is a psql command that scripts do not support | leave it out; \\set x \
             debug(:x)",
        ),
        (
            "select 1 \\gexec",
            "\\gexec is a psql command that scripts do not support | have psql write",
        ),
        (
            "\\dt+",
            "\\dt+ is a psql command that scripts do not support | only psql describes objects",
        ),
        (
            "\\if 1\nselect 1;",
            "\\if without \\endif | close it with \\endif",
        ),
        (
            "\\slep 1",
            "unknown meta-command \"\\slep\" | did you mean \"sleep\"?",
        ),
    ] {
        assert!(hint(text).starts_with(wanted), "{text}: {}", hint(text));
    }
}

#[test]
fn the_built_in_scripts_are_those_of_pgbench() {
    let statements = |name: &str| texts(builtin(name).expect("built in"));
    assert_eq!(BUILTIN_NAMES.map(|name| statements(name).len()), [7, 5, 1]);
    for name in BUILTIN_NAMES {
        assert!(
            script(builtin(name).expect("built in"))
                .variables_unset
                .is_empty(),
            "{name}"
        );
    }
    assert_eq!(
        statements("select-only"),
        ["select abalance from pgbench_accounts where aid = :aid"]
    );
    assert!(builtin("nothing").is_none());
}
