//! Transactions that are held open: a script's commands with a pause before its COMMIT, as an
//! application has that does something else while its transaction is open.

use crate::script::{Command, Script, ScriptError, Sleep, Source, Statement};

/// The script that brings the two statements that a script without a block is wrapped in. It is
/// parsed together with the group's scripts and is not one of them.
pub const BLOCK: Source<'static> = Source {
    name: NAME,
    text: "begin;\ncommit;\n",
    file: NAME,
};

const NAME: &str = "hold_open_ms";

/// A script with a pause of `time_ms` before each COMMIT or END; if it has no block it becomes one,
/// between the statements of `block`.
///
/// # Errors
/// It cannot be held open.
pub fn hold_open(script: Script, block: &Script, time_ms: u64) -> Result<Script, ScriptError> {
    let (mut begin, mut ends) = (None, Vec::new());
    for (index, command) in script.commands.iter().enumerate() {
        match command {
            Command::StartPipeline => {
                let message = format!("{NAME} cannot hold a transaction open within a pipeline");
                return Err(script.error_at(index, &message, "send the statements one by one"));
            }
            Command::Sql(statement) => {
                let queries = queries(statement);
                let several = queries.len() > 1;
                if queries.iter().any(|query| begins_block(query)) {
                    begin = begin.or(Some(index));
                }
                let ended = queries.iter().any(|query| ends_block(query));
                if ended && several {
                    let message = format!("{NAME} cannot pause within joined statements");
                    return Err(script.error_at(index, &message, "send COMMIT by itself"));
                }
                if ended {
                    ends.push(index);
                }
            }
            _ => {}
        }
    }
    let pause = Command::Sleep(Sleep::milliseconds(time_ms));
    if ends.is_empty() {
        let Some(begin) = begin else {
            return Ok(wrap(script, block, &pause));
        };
        let message = format!("{NAME} holds a transaction open before its COMMIT, and it has none");
        return Err(script.error_at(
            begin,
            &message,
            "end the script with COMMIT, or leave BEGIN out",
        ));
    }
    let insertions: Vec<(usize, Command)> =
        ends.into_iter().map(|at| (at, pause.clone())).collect();
    Ok(insert(script, &insertions))
}

/// The whole script in a block, with the pause at its end.
fn wrap(script: Script, block: &Script, pause: &Command) -> Script {
    let end = script.commands.len();
    let mut around = block.commands.iter().cloned();
    let first = around.next().into_iter().map(|begin| (0, begin));
    let last = std::iter::once(pause.clone()).chain(around);
    let insertions: Vec<(usize, Command)> = first.chain(last.map(|last| (end, last))).collect();
    insert(script, &insertions)
}

/// Puts commands before those at the given places, which are in order; who jumps to such a place
/// comes to what was put before it, except at the very beginning, to which nothing jumps.
fn insert(mut script: Script, insertions: &[(usize, Command)]) -> Script {
    let moved = |place: usize| place + insertions.iter().filter(|(at, _)| *at < place).count();
    for command in &mut script.commands {
        if let Command::Jump { target } | Command::JumpUnless { target, .. } = command {
            *target = moved(*target);
        }
    }
    for (at, command) in insertions.iter().rev() {
        let place = script.places.get(*at).or(script.places.last()).copied();
        script.commands.insert(*at, command.clone());
        script.places.insert(*at, place.unwrap_or((1, 1)));
    }
    let statements = script
        .commands
        .iter_mut()
        .filter_map(|command| match command {
            Command::Sql(statement) => Some(statement),
            _ => None,
        });
    for (position, statement) in statements.enumerate() {
        statement.position = position;
    }
    script
}

/// Those joined by `\;`, which only mean something in the simple protocol, apart.
fn queries(statement: &Statement) -> Vec<&str> {
    if !statement.simple_only {
        return vec![&statement.text];
    }
    let parts = statement.text.split(';');
    parts.filter(|part| !part.trim().is_empty()).collect()
}

fn begins_block(query: &str) -> bool {
    match word_of(query, 0).as_deref() {
        Some("BEGIN") => true,
        Some("START") => word_of(query, 1).as_deref() == Some("TRANSACTION"),
        _ => false,
    }
}

/// COMMIT and END, but not COMMIT PREPARED.
fn ends_block(query: &str) -> bool {
    match word_of(query, 0).as_deref() {
        Some("END") => true,
        Some("COMMIT") => word_of(query, 1).as_deref() != Some("PREPARED"),
        _ => false,
    }
}

/// A query's word by its number, in capitals; comments before the first do not count.
fn word_of(query: &str, number: usize) -> Option<String> {
    let mut rest = query.trim_start();
    while let Some(comment) = rest.strip_prefix("/*") {
        rest = comment.split_once("*/").map_or("", |(_, rest)| rest);
        rest = rest.trim_start();
    }
    let word = rest.split_whitespace().nth(number)?;
    let end = word.find(|c: char| !c.is_ascii_alphabetic());
    Some(word[..end.unwrap_or(word.len())].to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::parse;

    fn held(text: &str) -> Result<Script, ScriptError> {
        let source = Source {
            name: "s",
            text,
            file: "s",
        };
        let mut group = parse(&[source, BLOCK], &[]).expect("valid");
        let block = group.scripts.pop().expect("two");
        hold_open(group.scripts.pop().expect("one"), &block, 5)
    }

    fn texts(script: &Script) -> Vec<String> {
        let text = |command: &Command| match command {
            Command::Sql(statement) => statement.text.clone(),
            Command::Sleep(_) => "pause".into(),
            Command::Jump { target } => format!("jump {target}"),
            Command::JumpUnless { target, .. } => format!("unless {target}"),
            _ => "other".into(),
        };
        script.commands.iter().map(text).collect()
    }

    fn refused(text: &str) -> String {
        held(text).expect_err("refused").to_string()
    }

    #[test]
    fn a_block_pauses_before_its_end() {
        for end in ["commit", "END", "commit work", "/* x */ Commit and chain"] {
            let script = held(&format!("begin; select 1; {end}; select 2;")).expect("fine");
            assert_eq!(
                texts(&script),
                ["begin", "select 1", "pause", end, "select 2"]
            );
            assert_eq!(script.places.len(), script.commands.len());
        }
    }

    #[test]
    fn a_script_without_a_block_becomes_one() {
        let script = held("select 1;\nselect 2").expect("fine");
        assert_eq!(
            texts(&script),
            ["begin", "select 1", "select 2", "pause", "commit"]
        );
        let positions: Vec<usize> = script.statements().map(|s| s.position).collect();
        assert_eq!(positions, [0, 1, 2, 3]);
        let other = held("commit prepared 'x'; select 'begin; commit';").expect("fine");
        assert_eq!(texts(&other).len(), 5);
    }

    #[test]
    fn jumps_lead_where_they_led() {
        let script = held("\\if 1\nselect 1;\n\\else\nselect 2;\n\\endif\n").expect("fine");
        assert_eq!(
            texts(&script),
            [
                "begin", "unless 4", "select 1", "jump 5", "select 2", "pause", "commit"
            ]
        );
        let block = "begin;\n\\if 1\nselect 1;\n\\else\nselect 2;\n\\endif\ncommit;";
        assert_eq!(
            texts(&held(block).expect("fine")),
            [
                "begin", "unless 4", "select 1", "jump 5", "select 2", "pause", "commit"
            ]
        );
    }

    #[test]
    fn what_cannot_be_held_open_is_refused() {
        assert!(refused("begin; select 1;").contains("before its COMMIT"));
        assert!(refused("begin; select 1; rollback;").contains("before its COMMIT"));
        assert!(refused("begin\\; select 1\\; commit;").contains("joined statements"));
        let pipeline = "\\startpipeline\nselect 1;\n\\endpipeline\n";
        assert!(refused(pipeline).contains("pipeline"));
    }
}
