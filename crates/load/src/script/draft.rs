//! A script being parsed: commands in order, blocks as jumps, and the rules of placement.

use std::ops::Range;

use super::error::{Fault, place};
use super::expr::Expr;
use super::meta::{self, Meta};
use super::names::{Assigned, Names, Scope, Slot, Uses};
use super::request::{Detail, RawRequest};
use super::rounds::Rounds;
use super::rows::Rows;
use super::sql::{self, RawStatement, Stop};
use super::{Capture, Command, Origin, SCRIPT_BYTES_MAX, Script, Statement};

/// A script to parse.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Its name in results.
    pub name: &'a str,
    /// The script.
    pub text: &'a str,
    /// Its name in error messages.
    pub file: &'a str,
}

/// A script whose statements are not yet looked into.
#[derive(Default)]
pub(super) struct Draft<'a> {
    steps: Vec<Step<'a>>,
    /// Range of each step in the text, up to the end of its meta-command. A statement without one has
    /// its own text, and only its start here.
    spans: Vec<Range<usize>>,
    /// End of the meta-command that is being read.
    end: usize,
    blocks: Vec<Block>,
    pipeline: Pipeline,
    expect: Option<(Expected, usize)>,
    /// Position of the statement to which a `\gset` here would belong.
    last_statement: Option<usize>,
    /// Variables that it can set.
    pub(super) sets: Assigned,
    uses: Uses,
}

enum Step<'a> {
    Sql {
        raw: RawStatement<'a>,
        expect: Option<Expected>,
        capture: Option<Capture>,
        rows: Option<Rows>,
    },
    Request(Box<RawRequest>),
    /// Redirects of the request before.
    Hops,
    Other(Command),
}

/// Announcement of `\expect`: an SQLSTATE, and whether the statement may also succeed.
type Expected = ([u8; 5], bool);

/// An `\if` or `\for` that is not closed yet, and its offset.
enum Block {
    If {
        offset: usize,
        /// The condition whose jump leads to the next branch; none after `\else`.
        condition: Option<usize>,
        /// Jumps to the end of the block.
        exits: Vec<usize>,
    },
    For {
        offset: usize,
        /// Its variable.
        name: String,
        /// The beginning of a round.
        round: usize,
    },
}

/// State of pipelines, as far as it is known without running the script: it is unknown once a
/// pipeline command depends on a condition.
#[derive(Default, PartialEq, Eq)]
enum Pipeline {
    #[default]
    Off,
    On(usize),
    Unknown,
}

impl<'a> Draft<'a> {
    /// Reads statements and meta-commands in turn.
    pub(super) fn read(text: &'a str, scope: &mut Scope) -> Result<Self, Fault> {
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
                    draft.end = next;
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
        self.spans.push(raw.offset..raw.offset);
        let expect = self.expect.take().map(|(code, _)| code);
        self.steps.push(Step::Sql {
            raw,
            expect,
            capture: None,
            rows: None,
        });
        Ok(())
    }

    /// Check for what a pipeline cannot contain; `\gset` is checked later.
    fn check_piped(&self, raw: &RawStatement<'_>) -> Result<(), Fault> {
        let (expect, offset) = self
            .expect
            .map_or((None, raw.offset), |(code, offset)| (Some(code), offset));
        let statement = Statement {
            joined: raw.joined,
            copy_in: raw.is_copy_in(),
            expect: expect.map(|(code, _)| code),
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
            Meta::Array { name, array } => {
                self.sets.names.insert(name);
                self.sets.add(&[Names::ROW]);
                self.push(Command::Array(array), offset);
            }
            Meta::Csv(names, table) => {
                self.sets.names.extend(names);
                self.push(Command::Csv(table), offset);
            }
            Meta::Forget => self.push(Command::Forget, offset),
            Meta::Sleep(sleep) => self.push(Command::Sleep(sleep), offset),
            Meta::If(condition) => self.open_block(condition, offset),
            Meta::Elif(condition) => self.next_branch("elif", Some(condition), offset)?,
            Meta::Else => self.next_branch("else", None, offset)?,
            Meta::Endif => self.close_block(offset)?,
            Meta::For { name, rounds } => self.open_rounds(name, rounds, offset)?,
            Meta::Endfor => self.close_rounds(offset)?,
            Meta::Capture(capture) => self.capture(capture, last_statement, offset)?,
            Meta::Rows(rows) => self.rows(rows, last_statement, offset)?,
            Meta::Expect { code, may_succeed } => {
                self.expect = Some(((code, may_succeed), offset));
            }
            Meta::Request(request) => self.request(request, offset)?,
            Meta::Detail(detail) => self.detail(detail, last_statement, offset)?,
            Meta::StartPipeline | Meta::SyncPipeline | Meta::EndPipeline => {
                self.pipeline(&meta, offset)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, command: Command, offset: usize) {
        self.steps.push(Step::Other(command));
        self.spans.push(offset..self.end);
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
        self.blocks.push(Block::If {
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
        let Some(Block::If {
            condition: open,
            exits,
            ..
        }) = self.blocks.last_mut()
        else {
            return Err(Fault::new(offset, format!("\\{word} without \\if")));
        };
        let Some(before) = open.take() else {
            return Err(Fault::new(offset, format!("\\{word} after \\else")));
        };
        exits.push(exit);
        *open = condition.is_some().then_some(exit + 1);
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
        let Some(Block::If {
            condition, exits, ..
        }) = self.blocks.pop()
        else {
            return Err(Fault::new(offset, "\\endif without \\if"));
        };
        let end = self.steps.len();
        for jump in exits.into_iter().chain(condition) {
            self.aim(jump, end);
        }
        Ok(())
    }

    fn open_rounds(&mut self, name: String, rounds: Rounds, offset: usize) -> Result<(), Fault> {
        let is_same =
            |block: &Block| matches!(block, Block::For { name: other, .. } if *other == name);
        if self.blocks.iter().any(is_same) {
            let message = format!("\\for within another one whose variable is \"{name}\", too");
            return Err(Fault::new(offset, message).hint("give the inner one another variable"));
        }
        self.sets.names.insert(name.clone());
        self.push(Command::Start(rounds.clone()), offset);
        let round = self.steps.len();
        self.push(Command::Round { rounds, target: 0 }, offset);
        self.blocks.push(Block::For {
            offset,
            name,
            round,
        });
        Ok(())
    }

    fn close_rounds(&mut self, offset: usize) -> Result<(), Fault> {
        let Some(Block::For { round, .. }) = self.blocks.pop() else {
            return Err(Fault::new(offset, "\\endfor without \\for"));
        };
        self.push(Command::Jump { target: round }, offset);
        self.aim(round, self.steps.len());
        Ok(())
    }

    /// Lets the jump at `index` lead to `to`.
    fn aim(&mut self, index: usize, to: usize) {
        if let Step::Other(command) = &mut self.steps[index] {
            command.aim(to);
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
        match last_statement.map(|index| (&mut self.steps[index], &mut self.spans[index])) {
            Some((Step::Sql { capture: to, .. }, span)) => {
                *to = Some(capture);
                span.end = self.end;
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
        match last_statement.map(|index| (&mut self.steps[index], &mut self.spans[index])) {
            Some((Step::Sql { raw, rows: to, .. }, span)) => {
                rows.check(raw, offset)?;
                *to = Some(rows);
                span.end = self.end;
                self.sets.add(&[Names::ROW]);
                Ok(())
            }
            _ => Err(Fault::new(offset, "\\rows must follow an SQL statement")),
        }
    }

    fn request(&mut self, request: Box<RawRequest>, offset: usize) -> Result<(), Fault> {
        if let Pipeline::On(_) = self.pipeline {
            return Err(Fault::new(offset, "a request cannot be used in a pipeline"));
        }
        self.last_statement = Some(self.steps.len());
        self.steps.push(Step::Request(request));
        self.spans.push(offset..self.end);
        Ok(())
    }

    /// `\header` and its like: belongs to the request just before, as do those that follow.
    fn detail(
        &mut self,
        detail: Detail,
        last_statement: Option<usize>,
        offset: usize,
    ) -> Result<(), Fault> {
        let step = last_statement.map(|index| &mut self.steps[index]);
        let Some(Step::Request(request)) = step else {
            return Err(Fault::new(
                offset,
                "this must follow a request, such as \\get",
            ));
        };
        if let Detail::Extract(name, _) = &detail {
            self.sets.names.insert(name.clone());
        }
        let follows = matches!(detail, Detail::Follow);
        request.add(detail, offset)?;
        if follows {
            self.steps.push(Step::Hops);
            self.spans.push(offset..self.end);
        }
        self.last_statement = last_statement;
        Ok(())
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
        match self.blocks.last() {
            Some(Block::If { offset, .. }) => {
                return Err(Fault::new(*offset, "\\if without \\endif")
                    .hint("close it with \\endif on a line of its own"));
            }
            Some(Block::For { offset, .. }) => {
                return Err(Fault::new(*offset, "\\for without \\endfor")
                    .hint("close it with \\endfor on a line of its own"));
            }
            None => {}
        }
        if let Pipeline::On(offset) = self.pipeline {
            return Err(Fault::new(offset, "the script ends inside a pipeline")
                .hint("close it with \\endpipeline"));
        }
        if let Some((_, offset)) = self.expect {
            return Err(misplaced_expect(offset));
        }
        if self.steps.is_empty() {
            return Err(
                Fault::new(0, "the script is empty").hint("it needs a statement or a meta-command")
            );
        }
        Ok(())
    }

    /// The script, now that it is known which names can be variables.
    pub(super) fn finish(
        mut self,
        source: &Source<'_>,
        definable: &Assigned,
        scope: &mut Scope,
    ) -> Result<Script, Fault> {
        scope.uses = std::mem::take(&mut self.uses);
        let mut commands: Vec<Command> = Vec::with_capacity(self.steps.len());
        let mut position = 0;
        for step in self.steps {
            commands.push(match step {
                Step::Request(request) => {
                    position += 1;
                    Command::Sql(request.finish(position - 1, definable, scope)?)
                }
                Step::Hops => {
                    position += 1;
                    let before = commands.iter().rev().find_map(|command| match command {
                        Command::Sql(request) => Some(request),
                        _ => None,
                    });
                    let before = before.cloned().unwrap_or_default();
                    Command::Hops(RawRequest::hops(&before, position - 1))
                }
                Step::Other(command) => command,
                Step::Sql {
                    raw,
                    expect,
                    capture,
                    rows,
                } => {
                    let statement = Statement {
                        position,
                        expect: expect.map(|(code, _)| code),
                        may_succeed: expect.is_some_and(|(_, may_succeed)| may_succeed),
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
            origins: origins(source.text, &self.spans),
            variables_unset: uses
                .list
                .into_iter()
                .filter(|name| !self.sets.contains(name))
                .collect(),
        })
    }
}

fn misplaced_expect(offset: usize) -> Fault {
    Fault::new(offset, "\\expect must be directly before an SQL statement")
}

/// Origins of the spans of the text, which are in ascending order. Each search starts at the line of
/// the span before.
fn origins(text: &str, spans: &[Range<usize>]) -> Vec<Origin> {
    let (mut from, mut line) = (0, 1);
    let mut origins = Vec::with_capacity(spans.len());
    for span in spans {
        let (further, column) = place(&text[from..], span.start.saturating_sub(from));
        line += further - 1;
        from = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
        origins.push(Origin {
            line,
            column,
            written: on_one_line(text[span.clone()].trim_end()),
        });
    }
    origins
}

/// Without the backslashes at ends of lines by which a meta-command goes on.
fn on_one_line(written: &str) -> Box<str> {
    written.replace("\\\r\n", " ").replace("\\\n", " ").into()
}
