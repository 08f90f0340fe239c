//! Texts of requests, with variables: `:name`, or `:{name}` where a letter or digit follows.

use pgdyno_http::{encode_link, encode_value};

use super::Piece;
use super::error::Fault;
use super::lexer::Lexer;
use super::names::{Assigned, Scope, Variables, continues_name, starts_name};

/// Text of a script, and where it stands.
#[derive(Debug)]
pub(super) struct Raw {
    pub text: String,
    pub offset: usize,
}

impl Raw {
    /// The rest of the line, which is there.
    pub fn required(
        mut lexer: Lexer<'_>,
        backslash: usize,
        name: &str,
        what: &str,
    ) -> Result<Self, Fault> {
        let (text, offset) = lexer.rest();
        if text.is_empty() {
            return Err(Fault::new(backslash, format!("\\{name} needs {what}")));
        }
        Ok(Self { text, offset })
    }

    /// Cut at its variables; `uses`: a name that nothing sets is worth a warning.
    pub fn pieces(
        &self,
        definable: &Assigned,
        scope: &mut Scope,
        uses: bool,
    ) -> Result<Vec<Piece>, Fault> {
        let (mut pieces, mut from, mut at) = (Vec::new(), 0, 0);
        while let Some(colon) = self.text[at..].find(':').map(|found| at + found) {
            at = colon + 1;
            let Some((name, end)) = name_after(&self.text, at) else {
                continue;
            };
            at = end;
            if uses {
                scope.uses.note(name);
            }
            if definable.contains(name) {
                let slot = scope.slot(name, self.offset)?;
                if colon > from {
                    pieces.push(Piece::Text(self.text[from..colon].to_owned()));
                }
                let (name, quoted) = (name.to_owned(), false);
                pieces.push(Piece::Variable { slot, name, quoted });
                from = end;
            }
        }
        if from < self.text.len() {
            pieces.push(Piece::Text(self.text[from..].to_owned()));
        }
        Ok(pieces)
    }
}

/// The name of a variable after a colon, and its end: `name` or `{name}`.
fn name_after(text: &str, at: usize) -> Option<(&str, usize)> {
    let braced = text[at..].starts_with('{');
    let start = at + usize::from(braced);
    let rest = text.as_bytes().get(start..)?;
    if !rest.first().is_some_and(|byte| starts_name(*byte)) {
        return None;
    }
    let length = rest.iter().take_while(|byte| continues_name(**byte));
    let end = start + length.count();
    if braced && !text[end..].starts_with('}') {
        return None;
    }
    Some((&text[start..end], end + usize::from(braced)))
}

/// The way values are put into a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    AsTheyAre,
    Encoded,
    /// Encoded, but a value at the beginning is a link.
    InUrl,
}

/// Appends the text with the values of its variables.
///
/// # Errors
/// A variable is not defined.
pub(super) fn write(
    pieces: &[Piece],
    variables: &Variables,
    values: Values,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    for (number, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Variable { slot, name, .. } => {
                let start = out.len();
                if !variables.write_text(*slot, out) {
                    return Err(format!("variable \"{name}\" is not defined"));
                }
                if values == Values::AsTheyAre || out[start..].iter().all(u8::is_ascii_alphanumeric)
                {
                    continue;
                }
                let value = out.split_off(start);
                if number == 0 && values == Values::InUrl {
                    encode_link(&value, out);
                } else {
                    encode_value(&value, out);
                }
            }
        }
    }
    Ok(())
}
