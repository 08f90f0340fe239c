//! From text to [`Script`]s: statements and meta-commands in turn, `\if` blocks become jumps.
//!
//! The scripts of a client group share their variables, so they are parsed together. Only then is
//! it known which `:name` in a statement can be a variable at all: one that is defined from outside
//! or set by one of the scripts. Any other stays as written (`a[1:n]`, `'{"a":true}'`), as it does
//! in pgbench's simple protocol, where a variable that is not defined is left alone.

use std::collections::HashSet;
use std::sync::Arc;

use super::error::{Fault, ScriptError, place};
use super::expr::Expr;
use super::meta::{self, Meta};
use super::names::{Names, Scope, Slot, Uses};
use super::rows::{Rows, Stand};
use super::sql::{self, RawStatement, Span, Stop};
use super::{Capture, Command, PARAMETERS_MAX, Piece, SCRIPT_BYTES_MAX, Script, Statement};

/// A script to parse.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// What results call it.
    pub name: &'a str,
    /// The script.
    pub text: &'a str,
    /// What error messages call it.
    pub file: &'a str,
}

/// The scripts of a client group, and their variables.
#[derive(Debug, Clone)]
pub struct Group {
    /// In the order given.
    pub scripts: Vec<Script>,
    /// Every variable that any of them uses or sets.
    pub names: Arc<Names>,
}

/// Parses the scripts of a client group. `defined` are the variables that its clients have from the
/// start, besides the built-in ones.
///
/// # Errors
/// The first mistake of the first script that has one.
pub fn parse(sources: &[Source<'_>], defined: &[&str]) -> Result<Group, ScriptError> {
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

/// Names that can have a value when a script runs.
#[derive(Debug, Clone, Default)]
struct Assigned {
    names: HashSet<String>,
    /// Of `\gset` and `\aset`: any name that starts like this.
    prefixes: HashSet<String>,
}

impl Assigned {
    fn add(&mut self, names: &[&str]) {
        self.names.extend(names.iter().map(|&name| name.to_owned()));
    }

    fn contains(&self, name: &str) -> bool {
        let mut starts = name
            .char_indices()
            .map(|(end, _)| &name[..end])
            .chain([name]);
        self.names.contains(name)
            || (!self.prefixes.is_empty() && starts.any(|start| self.prefixes.contains(start)))
    }
}

/// A script whose statements are not yet looked into.
#[derive(Default)]
struct Draft<'a> {
    steps: Vec<Step<'a>>,
    offsets: Vec<usize>,
    blocks: Vec<Block>,
    pipeline: Pipeline,
    expect: Option<([u8; 5], usize)>,
    /// Where the statement is that a `\gset` right here would belong to.
    last_statement: Option<usize>,
    sets: Assigned,
    uses: Uses,
}

enum Step<'a> {
    Sql {
        raw: RawStatement<'a>,
        expect: Option<[u8; 5]>,
        capture: Option<Capture>,
        rows: Option<Rows>,
    },
    Other(Command),
}

/// An `\if` that is not closed yet.
struct Block {
    offset: usize,
    /// The condition whose jump leads to the next branch; none after `\else`.
    condition: Option<usize>,
    /// Jumps to the end of the block.
    exits: Vec<usize>,
}

/// Where pipelines stand, as far as that can be known without running the script: once a pipeline
/// command depends on a condition, nothing is.
#[derive(Default, PartialEq, Eq)]
enum Pipeline {
    #[default]
    Off,
    On(usize),
    Unknown,
}

impl<'a> Draft<'a> {
    fn read(text: &'a str, scope: &mut Scope) -> Result<Self, Fault> {
        if text.len() > SCRIPT_BYTES_MAX {
            let limit = SCRIPT_BYTES_MAX >> 20;
            return Err(Fault::new(
                0,
                format!("the script is larger than {limit} MiB"),
            ));
        }
        if let Some(offset) = text.find('\0') {
            return Err(Fault::new(offset, "the script contains a zero byte"));
        }
        let mut draft = Self::default();
        draft.sets.add(&Names::BUILT_IN);
        let mut at = 0;
        loop {
            let (raw, stop, next) = sql::scan(text, at)?;
            if let Some(raw) = raw {
                draft.statement(raw)?;
            }
            at = match stop {
                Stop::Semicolon => next,
                Stop::Meta(start) => {
                    let (meta, next) = meta::parse(text, start, scope)?;
                    draft.meta(meta, start - 1)?;
                    next
                }
                Stop::End => break,
            };
        }
        draft.uses = std::mem::take(&mut scope.uses);
        draft.check_end()?;
        Ok(draft)
    }

    fn statement(&mut self, raw: RawStatement<'a>) -> Result<(), Fault> {
        if let Pipeline::On(_) = self.pipeline {
            self.check_piped(&raw)?;
        }
        self.last_statement = Some(self.steps.len());
        self.offsets.push(raw.offset);
        let expect = self.expect.take().map(|(code, _)| code);
        self.steps.push(Step::Sql {
            raw,
            expect,
            capture: None,
            rows: None,
        });
        Ok(())
    }

    /// What cannot stand in a pipeline; `\gset` comes later.
    fn check_piped(&self, raw: &RawStatement<'_>) -> Result<(), Fault> {
        let (expect, offset) = self
            .expect
            .map_or((None, raw.offset), |(code, offset)| (Some(code), offset));
        let statement = Statement {
            joined: raw.joined,
            copy_in: raw.is_copy_in(),
            expect,
            ..Statement::default()
        };
        statement
            .unpipable()
            .map_or(Ok(()), |why| Err(Fault::new(offset, why)))
    }

    fn meta(&mut self, meta: Meta, offset: usize) -> Result<(), Fault> {
        if let Meta::Nothing = meta {
            return Ok(());
        }
        if let Some((_, offset)) = self.expect {
            return Err(misplaced_expect(offset));
        }
        let last_statement = self.last_statement.take();
        match meta {
            Meta::Nothing => {}
            Meta::Set { slot, name, expr } => self.set(slot, name, expr, offset),
            Meta::Sleep(sleep) => self.push(Command::Sleep(sleep), offset),
            Meta::If(condition) => self.open_block(condition, offset),
            Meta::Elif(condition) => self.next_branch("elif", Some(condition), offset)?,
            Meta::Else => self.next_branch("else", None, offset)?,
            Meta::Endif => self.close_block(offset)?,
            Meta::Capture(capture) => self.capture(capture, last_statement, offset)?,
            Meta::Rows(rows) => self.rows(rows, last_statement, offset)?,
            Meta::Expect(code) => self.expect = Some((code, offset)),
            Meta::StartPipeline | Meta::SyncPipeline | Meta::EndPipeline => {
                self.pipeline(&meta, offset)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, command: Command, offset: usize) {
        self.steps.push(Step::Other(command));
        self.offsets.push(offset);
    }

    fn set(&mut self, slot: Slot, name: String, expr: Expr, offset: usize) {
        self.sets.names.insert(name);
        self.push(Command::Set { slot, expr }, offset);
    }

    fn open_block(&mut self, condition: Expr, offset: usize) {
        let index = self.steps.len();
        self.push(
            Command::JumpUnless {
                condition,
                target: 0,
            },
            offset,
        );
        self.blocks.push(Block {
            offset,
            condition: Some(index),
            exits: Vec::new(),
        });
    }

    /// `\elif` with its condition, or `\else`.
    fn next_branch(
        &mut self,
        word: &str,
        condition: Option<Expr>,
        offset: usize,
    ) -> Result<(), Fault> {
        let exit = self.steps.len();
        let Some(block) = self.blocks.last_mut() else {
            return Err(Fault::new(offset, format!("\\{word} without \\if")));
        };
        let Some(before) = block.condition.take() else {
            return Err(Fault::new(offset, format!("\\{word} after \\else")));
        };
        block.exits.push(exit);
        block.condition = condition.is_some().then_some(exit + 1);
        self.push(Command::Jump { target: 0 }, offset);
        self.aim(before, exit + 1);
        if let Some(condition) = condition {
            self.push(
                Command::JumpUnless {
                    condition,
                    target: 0,
                },
                offset,
            );
        }
        Ok(())
    }

    fn close_block(&mut self, offset: usize) -> Result<(), Fault> {
        let block = self
            .blocks
            .pop()
            .ok_or_else(|| Fault::new(offset, "\\endif without \\if"))?;
        let end = self.steps.len();
        for jump in block.exits.into_iter().chain(block.condition) {
            self.aim(jump, end);
        }
        Ok(())
    }

    /// Lets the jump at `index` lead to `to`.
    fn aim(&mut self, index: usize, to: usize) {
        if let Step::Other(Command::Jump { target } | Command::JumpUnless { target, .. }) =
            &mut self.steps[index]
        {
            *target = to;
        }
    }

    /// `\gset` or `\aset`: belongs to the statement just before.
    fn capture(
        &mut self,
        capture: Capture,
        last_statement: Option<usize>,
        offset: usize,
    ) -> Result<(), Fault> {
        let word = capture.word();
        if let Pipeline::On(_) = self.pipeline {
            return Err(Fault::new(
                offset,
                format!("\\{word} cannot be used in a pipeline"),
            ));
        }
        self.sets.prefixes.insert(capture.prefix.clone());
        match last_statement.map(|index| &mut self.steps[index]) {
            Some(Step::Sql { capture: to, .. }) => {
                *to = Some(capture);
                Ok(())
            }
            _ => Err(Fault::new(
                offset,
                format!("\\{word} must follow an SQL statement"),
            )),
        }
    }

    /// `\rows`: belongs to the statement just before.
    fn rows(
        &mut self,
        rows: Rows,
        last_statement: Option<usize>,
        offset: usize,
    ) -> Result<(), Fault> {
        match last_statement.map(|index| &mut self.steps[index]) {
            Some(Step::Sql { raw, rows: to, .. }) => {
                rows.check(raw, offset)?;
                *to = Some(rows);
                self.sets.add(&[Names::ROW]);
                Ok(())
            }
            _ => Err(Fault::new(offset, "\\rows must follow an SQL statement")),
        }
    }

    fn pipeline(&mut self, meta: &Meta, offset: usize) -> Result<(), Fault> {
        if !self.blocks.is_empty() {
            self.pipeline = Pipeline::Unknown;
        }
        let known = self.pipeline != Pipeline::Unknown;
        let on = matches!(self.pipeline, Pipeline::On(_));
        let (command, after) = match meta {
            Meta::StartPipeline if known && on => {
                return Err(Fault::new(offset, "\\startpipeline inside a pipeline"));
            }
            Meta::StartPipeline => (Command::StartPipeline, Pipeline::On(offset)),
            Meta::SyncPipeline if known && !on => {
                return Err(Fault::new(offset, "\\syncpipeline outside a pipeline"));
            }
            Meta::SyncPipeline => (Command::SyncPipeline, Pipeline::On(offset)),
            _ if known && !on => {
                return Err(Fault::new(offset, "\\endpipeline outside a pipeline"));
            }
            _ => (Command::EndPipeline, Pipeline::Off),
        };
        if known {
            self.pipeline = after;
        }
        self.push(command, offset);
        Ok(())
    }

    fn check_end(&self) -> Result<(), Fault> {
        if let Some(block) = self.blocks.last() {
            return Err(Fault::new(block.offset, "\\if without \\endif"));
        }
        if let Pipeline::On(offset) = self.pipeline {
            return Err(Fault::new(offset, "the script ends inside a pipeline")
                .hint("close it with \\endpipeline"));
        }
        if let Some((_, offset)) = self.expect {
            return Err(misplaced_expect(offset));
        }
        if !self
            .steps
            .iter()
            .any(|step| matches!(step, Step::Sql { .. }))
        {
            return Err(Fault::new(
                0,
                "the script has no SQL statement: it would never send anything",
            ));
        }
        Ok(())
    }

    fn finish(
        mut self,
        source: &Source<'_>,
        definable: &Assigned,
        scope: &mut Scope,
    ) -> Result<Script, Fault> {
        scope.uses = std::mem::take(&mut self.uses);
        let mut commands = Vec::with_capacity(self.steps.len());
        let mut position = 0;
        for step in self.steps {
            commands.push(match step {
                Step::Other(command) => command,
                Step::Sql {
                    raw,
                    expect,
                    capture,
                    rows,
                } => {
                    let statement = Statement {
                        position,
                        expect,
                        capture,
                        rows,
                        ..Statement::default()
                    };
                    position += 1;
                    Command::Sql(statement.fill(&raw, definable, scope)?)
                }
            });
        }
        let uses = std::mem::take(&mut scope.uses);
        Ok(Script {
            name: source.name.to_owned(),
            file: source.file.to_owned(),
            commands,
            places: places(source.text, &self.offsets),
            variables_unset: uses
                .list
                .into_iter()
                .filter(|name| !self.sets.contains(name))
                .collect(),
        })
    }
}

fn misplaced_expect(offset: usize) -> Fault {
    Fault::new(offset, "\\expect must stand right before an SQL statement")
}

/// Line and column of each offset; they ascend. Each look starts at the line of the one before.
fn places(text: &str, offsets: &[usize]) -> Vec<(u32, u32)> {
    let (mut from, mut line) = (0, 1);
    let mut places = Vec::with_capacity(offsets.len());
    for &offset in offsets {
        let (further, column) = place(&text[from..], offset.saturating_sub(from));
        line += further - 1;
        from = text[..offset].rfind('\n').map_or(0, |at| at + 1);
        places.push((line, column));
    }
    places
}

impl Statement {
    /// Takes the text over from the script.
    fn fill(
        mut self,
        raw: &RawStatement<'_>,
        definable: &Assigned,
        scope: &mut Scope,
    ) -> Result<Self, Fault> {
        self.joined = raw.joined;
        self.copy_in = raw.is_copy_in();
        self.simple_only = raw.joined || (self.copy_in && self.rows.is_some());
        let mut rows_stand = self.rows.is_some() && !self.copy_in;
        for span in &raw.spans {
            match *span {
                Span::Text(text) => self.push_text(text),
                Span::Variable {
                    name: "rows",
                    quoted: false,
                    ..
                } if rows_stand => {
                    self.stand_rows();
                    self.text.push_str(":rows");
                    rows_stand = false;
                }
                Span::Variable {
                    name,
                    offset,
                    quoted,
                } => {
                    if !quoted {
                        scope.uses.note(name);
                    }
                    if definable.contains(name) {
                        let slot = scope.slot(name, offset)?;
                        self.push_variable(slot, name, quoted);
                    } else {
                        self.push_text(&format!(":{name}"));
                    }
                }
            }
        }
        if self.text.is_empty() {
            self.push_text(";");
        }
        if rows_stand {
            self.push_text(" ");
            self.stand_rows();
        }
        if self.parameters.len() > PARAMETERS_MAX && !self.simple_only {
            let count = self.parameters.len();
            let message = format!(
                "the statement has too many parameters: {count}, and {PARAMETERS_MAX} are allowed"
            );
            return Err(Fault::new(raw.offset, message));
        }
        Ok(self)
    }

    /// The rows stand here.
    fn stand_rows(&mut self) {
        let stand = Stand {
            piece: self.pieces.len(),
            parameterized: self.parameterized.len(),
        };
        // What follows is a piece of its own.
        self.pieces.push(Piece::Text(String::new()));
        if let Some(rows) = &mut self.rows {
            rows.stand = stand;
        }
    }

    fn push_text(&mut self, text: &str) {
        self.text.push_str(text);
        self.parameterized.push_str(text);
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    fn push_variable(&mut self, slot: Slot, name: &str, quoted: bool) {
        let written = format!(":{name}");
        self.text.push_str(&written);
        self.simple_only |= quoted;
        if quoted {
            self.parameterized.push_str(&written);
        } else {
            self.parameters.push(slot);
            self.parameterized
                .push_str(&format!("${}", self.parameters.len()));
        }
        let name = name.to_owned();
        self.pieces.push(Piece::Variable { slot, name, quoted });
    }
}
