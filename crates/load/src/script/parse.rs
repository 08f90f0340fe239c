//! From text to [`Script`]s: statements and meta-commands in turn, `\if` blocks become jumps.
//!
//! The scripts of a client group share their variables, so they are parsed together. Only then is
//! it known which `:name` in a statement can be a variable at all: one that is defined from outside
//! or set by one of the scripts. Any other stays as written (`a[1:n]`, `'{"a":true}'`), as it does
//! in pgbench's simple protocol, where a variable that is not defined is left alone.

use std::sync::Arc;

use super::Script;
use super::draft::{Draft, Source};
use super::error::ScriptError;
use super::names::{Assigned, Names, Scope, Uses};

/// The parser goes as deep as an expression does, whatever stack its caller has.
const STACK_BYTES: usize = 32 << 20;

/// The scripts of a client group, and their variables.
#[derive(Debug, Clone)]
pub struct Group {
    /// In the order given.
    pub scripts: Vec<Script>,
    /// Every variable that any of them uses or sets.
    pub names: Arc<Names>,
}

/// Parses the scripts of a client group. `defined` are the variables that its clients have from the
/// start, in addition to the built-in ones.
///
/// # Errors
/// The first mistake of the first script that has one.
pub fn parse(sources: &[Source<'_>], defined: &[&str]) -> Result<Group, ScriptError> {
    std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().stack_size(STACK_BYTES);
        match parser.spawn_scoped(scope, || parse_all(sources, defined)) {
            Ok(parser) => parser
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(error) => Err(no_thread(sources, &error)),
        }
    })
}

fn no_thread(sources: &[Source<'_>], error: &std::io::Error) -> ScriptError {
    ScriptError {
        file: sources
            .first()
            .map_or_else(String::new, |source| source.file.to_owned()),
        line: 1,
        column: 1,
        message: format!("cannot start a thread to read the script: {error}"),
        hint: Some("raise the limit on processes (ulimit -u)".to_owned()),
    }
}

fn parse_all(sources: &[Source<'_>], defined: &[&str]) -> Result<Group, ScriptError> {
    let mut scope = Scope {
        names: Names::new(),
        uses: Uses::default(),
    };
    for name in defined {
        scope.names.slot(name);
    }
    let mut drafts = Vec::with_capacity(sources.len());
    for source in sources {
        let draft = Draft::read(source.text, &mut scope);
        drafts.push(draft.map_err(|fault| fault.locate(source.text, source.file))?);
    }
    let mut definable = Assigned::default();
    definable.add(defined);
    for draft in &drafts {
        definable.names.extend(draft.sets.names.iter().cloned());
        definable
            .prefixes
            .extend(draft.sets.prefixes.iter().cloned());
    }
    let mut scripts = Vec::with_capacity(sources.len());
    for (source, draft) in sources.iter().zip(drafts) {
        let script = draft.finish(source, &definable, &mut scope);
        scripts.push(script.map_err(|fault| fault.locate(source.text, source.file))?);
    }
    Ok(Group {
        scripts,
        names: Arc::new(scope.names),
    })
}
