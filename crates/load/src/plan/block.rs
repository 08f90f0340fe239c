//! A script's transaction block: where it begins and ends, and how commands are put before its
//! COMMIT. A script without a block becomes one.

use crate::script::{Command, Origin, Script, ScriptError, Source, Statement};

/// The script that brings the two statements that a script without a block is wrapped in. It is
/// parsed together with the group's scripts and is not one of them.
pub const BLOCK: Source<'static> = Source {
    name: "block",
    text: "begin;\ncommit;\n",
    file: "block",
};

/// Before which COMMIT or END something is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// All of them.
    Each,
    /// The last, to which every run of the script has to come.
    Last,
}

/// The inserted content.
#[derive(Debug)]
pub struct Addition<'a> {
    /// The key of the configuration that asks for it.
    pub name: &'static str,
    /// The command.
    pub command: &'a Command,
    /// Its position.
    pub before: Before,
}

/// Starts and ends of a script's blocks, by indexes of its commands.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The first BEGIN.
    pub begin: Option<usize>,
    /// COMMIT and END.
    pub ends: Vec<usize>,
}

/// Finds the bounds of a script's blocks; `name` is who needs them.
///
/// # Errors
/// A pipeline, or a COMMIT that is joined to other statements: nothing can be put before it.
pub fn bounds(script: &Script, name: &str) -> Result<Bounds, ScriptError> {
    let mut bounds = Bounds::default();
    for (index, command) in script.commands.iter().enumerate() {
        match command {
            Command::StartPipeline => {
                let message = format!(
                    "{name} must come before a COMMIT, and a pipeline does not \
                                       allow that"
                );
                return Err(script.error_at(index, &message, "send the statements one by one"));
            }
            Command::Sql(statement) => {
                let queries = queries(statement);
                if queries.iter().any(|query| begins_block(query)) {
                    bounds.begin = bounds.begin.or(Some(index));
                }
                if !queries.iter().any(|query| ends_block(query)) {
                    continue;
                }
                if queries.len() > 1 {
                    let message = format!("{name} cannot be placed between joined statements");
                    return Err(script.error_at(index, &message, "send COMMIT by itself"));
                }
                bounds.ends.push(index);
            }
            _ => {}
        }
    }
    Ok(bounds)
}

/// A script with `addition` before its COMMIT or END; if it has no block it becomes one, between the
/// statements of `block`.
///
/// # Errors
/// There is no place for it.
pub fn add(script: Script, block: &Script, addition: &Addition<'_>) -> Result<Script, ScriptError> {
    let Bounds { begin, ends } = bounds(&script, addition.name)?;
    let Some(&last) = ends.last() else {
        return wrap(script, begin, block, addition);
    };
    let places = match addition.before {
        Before::Each => ends,
        Before::Last if may_be_jumped_over(&script, last) => {
            let message = format!(
                "{} must come before the last COMMIT, which not every run of the script reaches",
                addition.name
            );
            let hint = "move COMMIT after \\endif";
            return Err(script.error_at(last, &message, hint));
        }
        Before::Last => vec![last],
    };
    let insertions: Vec<(usize, Command)> = places
        .into_iter()
        .map(|at| (at, addition.command.clone()))
        .collect();
    Ok(insert(script, &insertions))
}

fn may_be_jumped_over(script: &Script, place: usize) -> bool {
    let before = script.commands.iter().take(place);
    before
        .into_iter()
        .any(|command| command.target().is_some_and(|target| target > place))
}

/// The whole script in a block, with the addition at its end.
fn wrap(
    script: Script,
    begin: Option<usize>,
    block: &Script,
    addition: &Addition<'_>,
) -> Result<Script, ScriptError> {
    let name = addition.name;
    if let Some(begin) = begin {
        let message = format!("{name} must come before a COMMIT, and this transaction has none");
        let hint = "end the script with COMMIT, or leave BEGIN out";
        return Err(script.error_at(begin, &message, hint));
    }
    if let Some(place) = unwrappable(&script) {
        let message = format!(
            "{name} needs a transaction block, in which this statement cannot be \
                               executed"
        );
        let hint = "move it to a separate client group";
        return Err(script.error_at(place, &message, hint));
    }
    let end = script.commands.len();
    let mut around = block.commands.iter().cloned();
    let first = around.next().into_iter().map(|begin| (0, begin));
    let last = std::iter::once(addition.command.clone()).chain(around);
    let insertions: Vec<(usize, Command)> = first.chain(last.map(|last| (end, last))).collect();
    Ok(insert(script, &insertions))
}

/// The first statement that PostgreSQL does not execute within a block, if there is one.
pub fn unwrappable(script: &Script) -> Option<usize> {
    let cannot = |query: &&str| {
        let word = |number| word_of(query, number).unwrap_or_default();
        match (word(0).as_str(), word(1).as_str()) {
            ("VACUUM", _)
            | ("ALTER", "SYSTEM")
            | ("CREATE" | "DROP", "DATABASE" | "TABLESPACE")
            | ("COMMIT" | "ROLLBACK", "PREPARED") => true,
            ("CREATE" | "DROP" | "REINDEX" | "REFRESH", _) => {
                (2..5).any(|number| word(number) == "CONCURRENTLY")
            }
            _ => false,
        }
    };
    script.commands.iter().position(|command| match command {
        Command::Sql(statement) => queries(statement).iter().any(cannot),
        _ => false,
    })
}

/// Puts commands before those at the given places, which are in order; who jumps to such a place
/// comes to what was put before it, except at the very beginning, to which nothing jumps.
pub fn insert(mut script: Script, insertions: &[(usize, Command)]) -> Script {
    let moved = |place: usize| place + insertions.iter().filter(|(at, _)| *at < place).count();
    for command in &mut script.commands {
        if let Some(target) = command.target() {
            command.aim(moved(target));
        }
    }
    for (at, command) in insertions.iter().rev() {
        let next = script.origins.get(*at).or(script.origins.last());
        let origin = Origin {
            line: next.map_or(1, |origin| origin.line),
            column: next.map_or(1, |origin| origin.column),
            written: Box::default(),
        };
        script.commands.insert(*at, command.clone());
        script.origins.insert(*at, origin);
    }
    let statements = script
        .commands
        .iter_mut()
        .filter_map(|command| match command {
            Command::Sql(statement) | Command::Hops(statement) => Some(statement),
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
pub(super) mod tests {
    use super::*;
    use crate::script::parse;

    /// The one script of `text`, and those parsed with it.
    pub fn parsed(text: &str, others: &[Source<'_>]) -> (Script, Vec<Script>) {
        let (name, file) = ("s", "s");
        let mut sources = vec![Source { name, text, file }];
        sources.extend_from_slice(others);
        let mut scripts = parse(&sources, &[]).expect("valid").scripts;
        let rest = scripts.split_off(1);
        (scripts.remove(0), rest)
    }

    /// The effects of a script, by command.
    pub fn texts(script: &Script) -> Vec<String> {
        let text = |command: &Command| match command {
            Command::Sql(statement) => statement.text.clone(),
            Command::Sleep(_) => "pause".into(),
            Command::Jump { target } => format!("jump {target}"),
            Command::JumpUnless { target, .. } => format!("unless {target}"),
            _ => "other".into(),
        };
        script.commands.iter().map(text).collect()
    }

    #[test]
    fn what_is_not_executed_in_a_block_is_known() {
        for text in [
            "vacuum t",
            "/* x */ create index concurrently on t (a)",
            "create unique index concurrently i on t (a)",
            "reindex table concurrently t",
            "refresh materialized view concurrently v",
            "commit prepared 'x'",
            "alter system set a = 1",
        ] {
            let text = format!("select 1; {text};");
            assert_eq!(unwrappable(&parsed(&text, &[]).0), Some(1), "{text}");
        }
        let script = parsed("create table t (a int); select 'vacuum';", &[]).0;
        assert_eq!(unwrappable(&script), None);
    }
}
