//! Variables: their names, which become slots when scripts are parsed, and one client's values.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::VARIABLES_MAX;
use super::error::{EvalError, Fault};
use super::value::{Datum, Value};

/// Place of a variable among those of a client group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot(u16);

/// Names of a client group's variables.
#[derive(Debug, Clone)]
pub struct Names {
    list: Vec<String>,
    slots: HashMap<String, Slot>,
}

impl Names {
    /// `:client_id`, from 0.
    pub const CLIENT_ID: Slot = Slot(0);
    /// `:scale`.
    pub const SCALE: Slot = Slot(1);
    /// `:random_seed`.
    pub const RANDOM_SEED: Slot = Slot(2);
    /// `:default_seed`, which hashes and `permute` use when none is given.
    pub const DEFAULT_SEED: Slot = Slot(3);
    /// `:txn`, the number of the transaction among the client's, from 0.
    pub const TXN: Slot = Slot(4);
    /// `:client_id` for a witness. A script can change its own; this one it cannot name.
    pub const WITNESS_CLIENT_ID: Slot = Slot(5);
    /// `:txn` for a witness, likewise.
    pub const WITNESS_TXN: Slot = Slot(6);
    /// Names of those above.
    pub const BUILT_IN: [&'static str; 7] = [
        "client_id",
        "scale",
        "random_seed",
        "default_seed",
        "txn",
        "witness client_id",
        "witness txn",
    ];

    /// Name of the variable with the number of a row of `\rows`.
    pub(super) const ROW: &'static str = "row";

    pub(super) fn new() -> Self {
        let mut names = Self {
            list: Vec::new(),
            slots: HashMap::new(),
        };
        for name in Self::BUILT_IN {
            names.slot(name);
        }
        names
    }

    /// The slot of this name, new if need be; `None` if there are too many.
    pub(super) fn slot(&mut self, name: &str) -> Option<Slot> {
        if let Some(slot) = self.slots.get(name) {
            return Some(*slot);
        }
        if self.list.len() >= VARIABLES_MAX {
            return None;
        }
        let slot = Slot(u16::try_from(self.list.len()).ok()?);
        self.list.push(name.to_owned());
        self.slots.insert(name.to_owned(), slot);
        Some(slot)
    }

    /// The slot of this name; `None` if no script of the group uses or sets it.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Slot> {
        self.slots.get(name).copied()
    }

    /// The name of this slot.
    #[must_use]
    pub fn name(&self, slot: Slot) -> &str {
        self.list
            .get(usize::from(slot.0))
            .map_or("", String::as_str)
    }
}

/// Names that can have a value when a script runs.
#[derive(Debug, Clone, Default)]
pub(super) struct Assigned {
    pub(super) names: HashSet<String>,
    /// Of `\gset` and `\aset`: any name that starts like this.
    pub(super) prefixes: HashSet<String>,
}

impl Assigned {
    pub(super) fn add(&mut self, names: &[&str]) {
        self.names.extend(names.iter().map(|&name| name.to_owned()));
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        let mut starts = name
            .char_indices()
            .map(|(end, _)| &name[..end])
            .chain([name]);
        self.names.contains(name)
            || (!self.prefixes.is_empty() && starts.any(|start| self.prefixes.contains(start)))
    }
}

/// Names while the scripts of a group are parsed.
#[derive(Debug)]
pub(super) struct Scope {
    pub names: Names,
    /// Names used by the script that is being parsed.
    pub uses: Uses,
}

/// Names in order of first use, each once.
#[derive(Debug, Default)]
pub(super) struct Uses {
    pub list: Vec<String>,
    seen: HashSet<String>,
}

impl Uses {
    /// Notes a use.
    pub fn note(&mut self, name: &str) {
        if !self.seen.contains(name) {
            self.seen.insert(name.to_owned());
            self.list.push(name.to_owned());
        }
    }
}

impl Scope {
    /// The slot of a variable that is used at `offset`.
    pub fn used(&mut self, name: &str, offset: usize) -> Result<Slot, Fault> {
        self.uses.note(name);
        self.slot(name, offset)
    }

    /// The slot of a variable that is met at `offset`.
    pub fn slot(&mut self, name: &str, offset: usize) -> Result<Slot, Fault> {
        let many = || format!("more than {VARIABLES_MAX} different variables");
        self.names
            .slot(name)
            .ok_or_else(|| Fault::new(offset, many()))
    }
}

/// True if `name` can be a variable: letters, digits, underscores and anything beyond ASCII, not
/// starting with a digit.
#[must_use]
pub fn is_valid_name(name: &str) -> bool {
    name.bytes().next().is_some_and(starts_name) && name.bytes().all(continues_name)
}

/// True if a variable's name can start with this byte.
pub(super) fn starts_name(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphabetic() || !byte.is_ascii()
}

/// True if a variable's name can go on with this byte.
pub(super) fn continues_name(byte: u8) -> bool {
    starts_name(byte) || byte.is_ascii_digit()
}

/// Values of a client. As in pgbench they live as long as the client, through all its
/// transactions and scripts.
///
/// A retry goes back to the values of the transaction's start: the first change of a variable after
/// [`Variables::remember`] keeps what it was. All memory is kept for the next time.
#[derive(Debug, Clone)]
pub struct Variables {
    names: Arc<Names>,
    values: Vec<Stored>,
    /// Earlier values of those in `changed`.
    before: Vec<Stored>,
    changed: Vec<Slot>,
    is_changed: Vec<bool>,
    /// For putting a text together.
    buffer: Vec<u8>,
}

/// Text that is just how a whole number is written is kept as that number, so that `:scale` given
/// on the command line costs nothing in an expression.
#[derive(Debug)]
enum Stored {
    Undefined,
    Value(Value),
    Text(Vec<u8>),
}

impl Clone for Stored {
    fn clone(&self) -> Self {
        match self {
            Self::Undefined => Self::Undefined,
            Self::Value(value) => Self::Value(*value),
            Self::Text(text) => Self::Text(text.clone()),
        }
    }

    /// Into the memory of a text that is there already.
    fn clone_from(&mut self, source: &Self) {
        match (self, source) {
            (Self::Text(text), Self::Text(source)) => text.clone_from(source),
            (to, from) => *to = from.clone(),
        }
    }
}

impl Variables {
    /// All undefined; the engine sets the built-in ones.
    #[must_use]
    pub fn new(names: &Arc<Names>) -> Self {
        let count = names.list.len();
        Self {
            names: Arc::clone(names),
            values: vec![Stored::Undefined; count],
            before: vec![Stored::Undefined; count],
            changed: Vec::new(),
            is_changed: vec![false; count],
            buffer: Vec::new(),
        }
    }

    /// From here on, changes can be taken back.
    pub fn remember(&mut self) {
        for slot in self.changed.drain(..) {
            self.is_changed[usize::from(slot.0)] = false;
        }
    }

    /// Takes back what changed since [`Variables::remember`].
    pub fn restore(&mut self) {
        for slot in self.changed.drain(..) {
            let at = usize::from(slot.0);
            self.is_changed[at] = false;
            std::mem::swap(&mut self.values[at], &mut self.before[at]);
        }
    }

    #[inline]
    fn keep(&mut self, slot: Slot) {
        let at = usize::from(slot.0);
        if !self.is_changed[at] {
            self.is_changed[at] = true;
            self.changed.push(slot);
            self.before[at].clone_from(&self.values[at]);
        }
    }

    /// Sets a variable.
    pub fn set(&mut self, slot: Slot, value: Value) {
        self.keep(slot);
        self.values[usize::from(slot.0)] = Stored::Value(value);
    }

    /// Sets a variable to text: from the command line, or a column that `\gset` stores. Its meaning
    /// in an expression is found when it is used in one.
    pub fn set_text(&mut self, slot: Slot, text: &[u8]) {
        self.keep(slot);
        let stored = &mut self.values[usize::from(slot.0)];
        if let Some(value) = canonical_int(text) {
            *stored = Stored::Value(Value::Int(value));
            return;
        }
        if let Stored::Text(buffer) = stored {
            buffer.clear();
            buffer.extend_from_slice(text);
        } else {
            *stored = Stored::Text(text.to_vec());
        }
    }

    /// Appends the variable's text; false, and nothing appended, if it is undefined.
    pub fn write_text(&self, slot: Slot, out: &mut Vec<u8>) -> bool {
        match &self.values[usize::from(slot.0)] {
            Stored::Undefined => return false,
            Stored::Value(value) => value.write_text(out),
            Stored::Text(text) => out.extend_from_slice(text),
        }
        true
    }

    /// Value of a variable that is a literal only within quotes: a UUID, a text or a
    /// timestamp of a function, an array.
    pub(super) fn to_quote(&self, slot: Slot) -> Option<Datum<'_>> {
        match &self.values[usize::from(slot.0)] {
            Stored::Value(value) if value.is_quoted() => Some(Datum::Value(*value)),
            Stored::Text(text) if text.first() == Some(&b'{') => Some(Datum::Text(text)),
            _ => None,
        }
    }

    /// The element of an array, from 1; NULL if there is none.
    pub(super) fn element(&self, slot: Slot, index: i64) -> Result<Value, EvalError> {
        match &self.values[usize::from(slot.0)] {
            Stored::Undefined => Err(self.undefined(slot)),
            Stored::Value(Value::Null) => Ok(Value::Null),
            Stored::Value(_) => Err(self.no_element(slot, index)),
            Stored::Text(text) => {
                Value::element(text, index).ok_or_else(|| self.no_element(slot, index))
            }
        }
    }

    /// Memory for putting a text together, empty; to be given back.
    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer
    }

    /// The memory for the next time.
    pub(super) fn give_buffer(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// Appends the variable's text as a parameter of the extended protocol; false, and nothing
    /// appended, if the parameter is NULL, which an undefined variable is too, as in pgbench.
    /// (pgbench would send a variable that is NULL as the word `NULL`; here it is NULL in every
    /// protocol.)
    pub fn write_parameter(&self, slot: Slot, out: &mut Vec<u8>) -> bool {
        match &self.values[usize::from(slot.0)] {
            Stored::Value(Value::Null) => false,
            _ => self.write_text(slot, out),
        }
    }

    /// The variable as a parameter: NULL if it is undefined, as in pgbench.
    #[must_use]
    pub fn parameter(&self, slot: Slot) -> Datum<'_> {
        self.known(slot).unwrap_or(Datum::Value(Value::Null))
    }

    /// The variable as a value of a row.
    pub(super) fn datum(&self, slot: Slot) -> Result<Datum<'_>, EvalError> {
        self.known(slot).ok_or_else(|| self.undefined(slot))
    }

    fn known(&self, slot: Slot) -> Option<Datum<'_>> {
        match &self.values[usize::from(slot.0)] {
            Stored::Value(value) => Some(Datum::Value(*value)),
            Stored::Text(text) => Some(Datum::Text(text)),
            Stored::Undefined => None,
        }
    }

    /// The variable's value in an expression.
    #[inline]
    pub(super) fn value(&self, slot: Slot) -> Result<Value, EvalError> {
        match &self.values[usize::from(slot.0)] {
            Stored::Value(value) => Ok(*value),
            Stored::Text(text) => Value::from_text(text).ok_or_else(|| self.malformed(slot, text)),
            Stored::Undefined => Err(self.undefined(slot)),
        }
    }

    /// The number that `\sleep` makes of a variable: its leading digits. A negative one is 0.
    pub(super) fn sleep_amount(&self, slot: Slot) -> Result<u64, EvalError> {
        let mut text = Vec::new();
        if !self.write_text(slot, &mut text) {
            return Err(self.undefined(slot));
        }
        let text = text.trim_ascii_start();
        let negative = text.first() == Some(&b'-');
        let digits = text
            .strip_prefix(b"-")
            .or(text.strip_prefix(b"+"))
            .unwrap_or(text);
        let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
        let (count, amount) = digits.fold((0_u32, 0_u64), |(count, amount), digit| {
            (
                count.saturating_add(1),
                amount
                    .saturating_mul(10)
                    .saturating_add(u64::from(digit - b'0')),
            )
        });
        if count == 0 {
            return Err(self.malformed(slot, text));
        }
        Ok(if negative { 0 } else { amount })
    }

    #[cold]
    fn undefined(&self, slot: Slot) -> EvalError {
        EvalError::new(format!(
            "variable \"{}\" is not defined",
            self.names.name(slot)
        ))
    }

    #[cold]
    fn no_element(&self, slot: Slot, index: i64) -> EvalError {
        EvalError::new(format!(
            "\"{}[{index}]\" is not an element that is a number: the variable must be an array of \
             numbers, such as {{1,2}}",
            self.names.name(slot)
        ))
    }

    #[cold]
    fn malformed(&self, slot: Slot, text: &[u8]) -> EvalError {
        let text: String = String::from_utf8_lossy(text).chars().take(64).collect();
        let name = self.names.name(slot);
        EvalError::new(format!("variable \"{name}\" is not a number: \"{text}\""))
    }
}

/// The number whose one spelling this is: no sign but `-`, no leading zero.
fn canonical_int(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if plain {
        std::str::from_utf8(text).ok()?.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture() -> (Slot, Variables) {
        let mut names = Names::new();
        let slot = names.slot("x").expect("room");
        (slot, Variables::new(&Arc::new(names)))
    }

    fn text(variables: &Variables, slot: Slot) -> Option<String> {
        let mut out = Vec::new();
        variables
            .write_text(slot, &mut out)
            .then(|| String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn text_keeps_its_spelling_and_has_a_value() {
        let (slot, mut variables) = fixture();
        for (source, value) in [
            ("007", Some(Value::Int(7))),
            ("20", Some(Value::Int(20))),
            ("-20", Some(Value::Int(-20))),
            ("-0", Some(Value::Int(0))),
            ("1.50", Some(Value::Double(1.5))),
            ("null", Some(Value::Null)),
            ("NULL", Some(Value::Null)),
            ("y", Some(Value::Bool(true))),
            ("abc", None),
            ("", None),
        ] {
            variables.set_text(slot, source.as_bytes());
            assert_eq!(text(&variables, slot).as_deref(), Some(source));
            assert_eq!(variables.value(slot).ok(), value, "{source:?}");
        }
    }

    #[test]
    fn undefined_and_null_are_null_parameters() {
        let (slot, mut variables) = fixture();
        let mut out = Vec::new();
        assert!(!variables.write_parameter(slot, &mut out));
        assert!(variables.value(slot).is_err());
        variables.set(slot, Value::Null);
        assert!(!variables.write_parameter(slot, &mut out));
        assert_eq!(text(&variables, slot).as_deref(), Some("NULL"));
        for source in ["", "NULL"] {
            variables.set_text(slot, source.as_bytes());
            assert!(
                variables.write_parameter(slot, &mut out),
                "text is never NULL"
            );
        }
    }

    #[test]
    fn sleep_takes_leading_digits() {
        let (slot, mut variables) = fixture();
        for (source, wanted) in [
            ("12", Some(12)),
            ("12abc", Some(12)),
            ("-5", Some(0)),
            ("abc", None),
            ("", None),
        ] {
            variables.set_text(slot, source.as_bytes());
            assert_eq!(variables.sleep_amount(slot).ok(), wanted, "{source:?}");
        }
    }

    #[test]
    fn changes_are_taken_back() {
        let (slot, mut variables) = fixture();
        variables.set_text(slot, b"first");
        variables.remember();
        variables.restore();
        assert_eq!(text(&variables, slot).as_deref(), Some("first"));
        for change in ["second", "3", "fourth"] {
            variables.set_text(slot, change.as_bytes());
        }
        variables.restore();
        assert_eq!(text(&variables, slot).as_deref(), Some("first"));
        variables.set(slot, Value::Int(5));
        variables.remember();
        variables.set(slot, Value::Null);
        variables.restore();
        assert_eq!(variables.value(slot), Ok(Value::Int(5)));
    }

    #[test]
    fn the_number_of_variables_is_bounded() {
        let mut names = Names::new();
        let made = (0..VARIABLES_MAX + 10)
            .filter_map(|i| names.slot(&format!("v{i}")))
            .count();
        assert_eq!(made, VARIABLES_MAX - Names::BUILT_IN.len());
    }
}
