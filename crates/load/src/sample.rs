//! Transactions kept as they were sent, so that their statements can be explained with the load's own
//! values.
//!
//! Of each script the last few are kept: of its first transactions the 1st, 2nd, 4th, 8th …, later
//! every [`EVERY`]th. Those that are not kept cost a subtraction each.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::script::{EvalError, Names, Rng, Rows, Slot, Statement, Variables};
use crate::sys::lock;

/// Transactions of a script that are kept.
pub const PER_SCRIPT: usize = 8;
/// Statements of a transaction that are kept.
const STATEMENTS_MAX: usize = 200;
/// The longest way, in transactions of a script and a thread, from one that is kept to the next: what is
/// kept is allocated, no more often than an interval ends.
const EVERY: u32 = 1 << 14;
/// Most values made up by `\rows` that are kept of a statement.
const ROW_VALUES_KEPT: u64 = 10_000;

/// A statement as it was sent; without the rows that `\rows` makes up, if they have more than
/// [`ROW_VALUES_KEPT`] values or are the data of COPY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledStatement {
    /// Its place among the script's statements.
    pub position: usize,
    /// The text with the values in it, as in the simple protocol.
    pub text: String,
    /// The text with places for parameters; `None` if it is sent by the simple protocol in any case.
    pub parameterized: Option<String>,
    /// The variable of each parameter, empty if it is none, and its value as text; `None` is NULL.
    pub parameters: Vec<(String, Option<String>)>,
    /// The prefix of the variables that `\gset` makes of its row; `None` without.
    pub captures: Option<String>,
}

impl SampledStatement {
    /// A statement with the values of now, and the rows that `rng` makes up next.
    fn new(statement: &Statement, variables: &Variables, rng: &Rng, names: &Names) -> Self {
        let mut sampled = Self::without_rows(statement, variables, names);
        if let Some(rows) = statement.rows.as_ref().filter(|_| !statement.copy_in) {
            // Rows that cannot be made fail as the statement is sent.
            let _ = sampled.add_rows(statement, rows, variables, rng, names);
        }
        sampled
    }

    fn add_rows(
        &mut self,
        statement: &Statement,
        rows: &Rows,
        variables: &Variables,
        rng: &Rng,
        names: &Names,
    ) -> Result<(), EvalError> {
        let count = rows.count(statement, variables)?;
        if count.saturating_mul(rows.columns_count() as u64) > ROW_VALUES_KEPT {
            return Ok(());
        }
        let mut text = Vec::new();
        statement.write_simple_rows(&mut variables.clone(), &mut rng.clone(), &mut text)?;
        let (mut variables, mut rng) = (variables.clone(), rng.clone());
        let mut values = Vec::new();
        for number in 0..count {
            rows.evaluate(number, &mut variables, &mut rng, |index, datum| {
                let name = rows.variable(index).map_or("", |slot| names.name(slot));
                let mut value = Vec::new();
                datum.write_text(&mut value);
                let value = String::from_utf8_lossy(&value).into_owned();
                values.push((name.to_owned(), (!datum.is_null()).then_some(value)));
            })?;
        }
        self.text = String::from_utf8_lossy(&text).into_owned();
        if self.parameterized.is_some() {
            self.parameterized = Some(statement.parameterized_rows(rows, count));
            self.parameters.extend(values);
        }
        Ok(())
    }

    fn without_rows(statement: &Statement, variables: &Variables, names: &Names) -> Self {
        let mut text = Vec::new();
        statement.write_simple(variables, &mut text);
        let value = |slot: &Slot| {
            let mut value = Vec::new();
            let known = variables.write_parameter(*slot, &mut value);
            let value = known.then(|| String::from_utf8_lossy(&value).into_owned());
            (names.name(*slot).to_owned(), value)
        };
        Self {
            position: statement.position,
            text: String::from_utf8_lossy(&text).into_owned(),
            parameterized: (!statement.simple_only).then(|| statement.parameterized.clone()),
            parameters: statement.parameters.iter().map(value).collect(),
            captures: statement.capture.as_ref().map(|each| each.prefix.clone()),
        }
    }
}

/// A transaction as it was sent, in the order of its statements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampledTransaction {
    /// Name of its client group.
    pub group: String,
    /// Name of its script.
    pub script: String,
    /// Its statements.
    pub statements: Vec<SampledStatement>,
}

/// The part of a client's open transaction that is kept.
#[derive(Debug, Default)]
pub enum Sampling {
    /// Nothing of it was sent yet.
    #[default]
    Undecided,
    /// Nothing.
    Left,
    /// Its statements so far.
    Kept(Box<SampledTransaction>),
}

impl Sampling {
    /// Keeps a statement that is sent now, if its transaction is kept.
    pub fn add(&mut self, statement: &Statement, variables: &Variables, rng: &Rng, names: &Names) {
        if let Self::Kept(sample) = self
            && sample.statements.len() < STATEMENTS_MAX
        {
            let sampled = SampledStatement::new(statement, variables, rng, names);
            sample.statements.push(sampled);
        }
    }

    /// Hands over the transaction, which ended well, if it is kept.
    pub fn give(&mut self, row: usize, samples: &Mutex<Samples>) {
        if let Self::Kept(sample) = std::mem::take(self) {
            lock(samples).keep(row, *sample);
        }
    }
}

/// The transactions that are kept of all scripts, by row.
#[derive(Debug, Default)]
pub struct Samples(Vec<VecDeque<SampledTransaction>>);

impl Samples {
    /// Nothing yet, of so many scripts.
    #[must_use]
    pub fn new(rows: usize) -> Self {
        Self(vec![VecDeque::with_capacity(PER_SCRIPT); rows])
    }

    /// Keeps a transaction in place of the oldest one of its script.
    fn keep(&mut self, row: usize, transaction: SampledTransaction) {
        let kept = &mut self.0[row];
        if kept.len() == PER_SCRIPT {
            kept.pop_front();
        }
        kept.push_back(transaction);
    }

    /// All that is kept, the oldest of a script first.
    pub fn iter(&self) -> impl Iterator<Item = &SampledTransaction> {
        self.0.iter().flatten()
    }
}

/// A thread's choice of the transactions that are kept.
#[derive(Debug)]
pub struct Sampler {
    /// By row of the script: transactions until the next that is kept, and those on the way to it.
    left: Vec<(u32, u32)>,
}

impl Sampler {
    /// For so many scripts.
    #[must_use]
    pub fn new(rows: usize) -> Self {
        Self {
            left: vec![(1, 1); rows],
        }
    }

    /// True if a transaction of a script, which begins, is kept.
    pub fn is_due(&mut self, row: usize) -> bool {
        let (left, way) = &mut self.left[row];
        *left -= 1;
        if *left > 0 {
            return false;
        }
        *left = *way;
        *way = (*way * 2).min(EVERY);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{EVERY, PER_SCRIPT, SampledStatement, SampledTransaction, Sampler, Samples};
    use crate::script::{Command, Rng, Source, Variables, parse};

    /// The first statement of a script as it would be kept, with what would be sent.
    fn sampled(text: &str) -> (SampledStatement, String) {
        let (name, file) = ("t", "t");
        let group = parse(&[Source { name, text, file }], &[]).expect("it parses");
        let Command::Sql(statement) = &group.scripts[0].commands[0] else {
            panic!("{text}");
        };
        let (mut variables, mut rng) = (Variables::new(&group.names), Rng::new(1));
        let found = SampledStatement::new(statement, &variables, &rng, &group.names);
        let mut sent = Vec::new();
        let _ = statement.write_simple_rows(&mut variables, &mut rng, &mut sent);
        (found, String::from_utf8_lossy(&sent).into_owned())
    }

    #[test]
    fn rows_are_those_that_are_sent() {
        let (found, sent) = sampled("insert into t values \\rows 2 :row, random(1, 1000), null");
        assert_eq!(found.text, sent);
        let places = "insert into t values ($1, $2, $3), ($4, $5, $6)";
        assert_eq!(found.parameterized.as_deref(), Some(places));
        let values: Vec<_> = found
            .parameters
            .iter()
            .map(|(_, value)| value.as_deref().unwrap_or("NULL"))
            .collect();
        let rows = format!("({}), ({})", values[..3].join(", "), values[3..].join(", "));
        assert_eq!(sent, format!("insert into t values {rows}"));
        assert_eq!((values[0], values[3]), ("0", "1"));
    }

    #[test]
    fn too_many_rows_and_those_of_copy_are_left_out() {
        let (found, _) = sampled("insert into t values \\rows 10001 1");
        assert_eq!(found.text, "insert into t values ");
        assert!(found.parameters.is_empty());
        let (found, _) = sampled("copy t from stdin \\rows 2 1");
        assert_eq!(found.text, "copy t from stdin");
    }

    #[test]
    fn a_few_of_the_first_transactions_and_every_so_many_of_the_later_are_due() {
        let mut sampler = Sampler::new(2);
        let due: Vec<u32> = (1..=4 * EVERY).filter(|_| sampler.is_due(0)).collect();
        assert_eq!(due[..6], [1, 2, 4, 8, 16, 32]);
        assert_eq!(due.last(), Some(&(4 * EVERY)));
        assert!(due.windows(2).all(|pair| pair[1] - pair[0] <= EVERY));
        assert!(sampler.is_due(1), "each script has its turns");
    }

    #[test]
    fn the_last_ones_are_kept() {
        let mut samples = Samples::new(1);
        for number in 0..=PER_SCRIPT {
            samples.keep(
                0,
                SampledTransaction {
                    script: number.to_string(),
                    ..SampledTransaction::default()
                },
            );
        }
        let kept: Vec<_> = samples.iter().map(|each| each.script.as_str()).collect();
        assert_eq!(kept.len(), PER_SCRIPT);
        assert_eq!((kept[0], kept[PER_SCRIPT - 1]), ("1", "8"));
    }
}
