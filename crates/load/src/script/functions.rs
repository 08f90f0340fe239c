//! The functions of expressions: names and numbers of arguments.

/// A function that an expression can call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Abs,
    ArrayOf,
    Debug,
    DocumentOf,
    Double,
    Exp,
    Greatest,
    HashFnv1a,
    HashMurmur2,
    Int,
    Least,
    Ln,
    Mod,
    Permute,
    Pi,
    Power,
    Random,
    RandomExponential,
    RandomGaussian,
    RandomText,
    RandomUuid,
    RandomZipfian,
    RangeOf,
    Sqrt,
    TextOf,
    Timestamp,
    UuidOf,
}

/// Most arguments of one call: what pgbench takes.
pub(super) const ARGUMENTS_MAX: usize = 16;

/// A function under one of its names.
pub(super) struct Entry {
    pub name: &'static str,
    pub function: Function,
    /// Fewest and most arguments.
    pub arguments: (usize, usize),
    /// The last argument is optional, and is then `:default_seed`.
    pub seeded: bool,
}

const fn entry(name: &'static str, function: Function, arguments: (usize, usize)) -> Entry {
    Entry {
        name,
        function,
        arguments,
        seeded: false,
    }
}

const fn seeded(name: &'static str, function: Function, arguments: (usize, usize)) -> Entry {
    Entry {
        name,
        function,
        arguments,
        seeded: true,
    }
}

/// All of them, by name. `array_of`, `document_of`, `random_text`, `random_uuid`, `range_of`,
/// `text_of`, `timestamp` and `uuid_of` are pgdyno's own.
pub(super) const FUNCTIONS: [Entry; 29] = [
    entry("abs", Function::Abs, (1, 1)),
    entry("array_of", Function::ArrayOf, (3, 4)),
    entry("debug", Function::Debug, (1, 1)),
    entry("document_of", Function::DocumentOf, (2, 2)),
    entry("double", Function::Double, (1, 1)),
    entry("exp", Function::Exp, (1, 1)),
    entry("greatest", Function::Greatest, (1, ARGUMENTS_MAX)),
    seeded("hash", Function::HashMurmur2, (1, 2)),
    seeded("hash_fnv1a", Function::HashFnv1a, (1, 2)),
    seeded("hash_murmur2", Function::HashMurmur2, (1, 2)),
    entry("int", Function::Int, (1, 1)),
    entry("least", Function::Least, (1, ARGUMENTS_MAX)),
    entry("ln", Function::Ln, (1, 1)),
    entry("mod", Function::Mod, (2, 2)),
    seeded("permute", Function::Permute, (2, 3)),
    entry("pi", Function::Pi, (0, 0)),
    entry("pow", Function::Power, (2, 2)),
    entry("power", Function::Power, (2, 2)),
    entry("random", Function::Random, (2, 2)),
    entry("random_exponential", Function::RandomExponential, (3, 3)),
    entry("random_gaussian", Function::RandomGaussian, (3, 3)),
    entry("random_text", Function::RandomText, (1, 2)),
    entry("random_uuid", Function::RandomUuid, (0, 0)),
    entry("random_zipfian", Function::RandomZipfian, (3, 3)),
    entry("range_of", Function::RangeOf, (2, 2)),
    entry("sqrt", Function::Sqrt, (1, 1)),
    entry("text_of", Function::TextOf, (2, 2)),
    entry("timestamp", Function::Timestamp, (1, 1)),
    entry("uuid_of", Function::UuidOf, (1, 1)),
];

/// The function of this name, in any case.
pub(super) fn find(name: &str) -> Option<&'static Entry> {
    FUNCTIONS
        .iter()
        .find(|entry| entry.name.eq_ignore_ascii_case(name))
}

impl Entry {
    /// Return the problem of a call with `count` arguments, if any.
    pub fn complaint(&self, count: usize) -> Option<String> {
        let (fewest, most) = self.arguments;
        if (fewest..=most).contains(&count) {
            return None;
        }
        let wanted = match (fewest, most) {
            (0, 0) => "no arguments".to_owned(),
            (1, 1) => "1 argument".to_owned(),
            (fewest, most) if fewest == most => format!("{fewest} arguments"),
            (fewest, most) if most == fewest + 1 => format!("{fewest} or {most} arguments"),
            (fewest, most) => format!("{fewest} to {most} arguments"),
        };
        Some(format!("{} takes {wanted}, not {count}", self.name))
    }
}
