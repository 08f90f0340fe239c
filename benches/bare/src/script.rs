//! The three workloads as statements in order, each an encoded message with places for parameters.

use crate::options::ScriptName;

const INT4_OID: u32 = 23;

/// The distribution of a parameter, which is drawn for each transaction.
#[derive(Debug, Clone, Copy)]
pub enum Parameter {
    Account,
    Teller,
    Branch,
    Delta,
}

/// The parameters of one transaction.
#[derive(Debug, Clone, Copy, Default)]
pub struct Values {
    account: i32,
    teller: i32,
    branch: i32,
    delta: i32,
}

impl Values {
    fn of(&self, parameter: Parameter) -> i32 {
        match parameter {
            Parameter::Account => self.account,
            Parameter::Teller => self.teller,
            Parameter::Branch => self.branch,
            Parameter::Delta => self.delta,
        }
    }
}

/// Bind, Execute and Sync of a prepared statement; parameters go out in binary, four bytes each.
#[derive(Debug)]
pub struct Statement {
    message: Vec<u8>,
    places: Vec<(usize, Parameter)>,
    /// Its Parse.
    pub parse: Vec<u8>,
}

impl Statement {
    /// Puts the message for these values in place of what `out` holds.
    pub fn write(&self, values: &Values, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.message);
        for &(place, parameter) in &self.places {
            out[place..place + 4].copy_from_slice(&values.of(parameter).to_be_bytes());
        }
    }
}

/// A workload at its scale.
#[derive(Debug)]
pub struct Script {
    pub statements: Vec<Statement>,
    scale: i32,
}

impl Script {
    /// Parameters for the next transaction.
    pub fn draw(&self, random: &mut Random) -> Values {
        Values {
            account: random.between(1, self.scale * 100_000),
            teller: random.between(1, self.scale * 10),
            branch: random.between(1, self.scale),
            delta: random.between(-5000, 5000),
        }
    }
}

/// Numbers that need not be good, only quick and different for each client.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn between(&mut self, lo: i32, hi: i32) -> i32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let span = u64::from(hi.abs_diff(lo)) + 1;
        let drawn = ((self.0 >> 32) * span) >> 32;
        lo.wrapping_add_unsigned(u32::try_from(drawn).unwrap_or(0))
    }
}

/// The statements of a workload.
pub fn script(name: ScriptName, scale: i32) -> Script {
    use Parameter::{Account, Branch, Delta, Teller};
    let select = (
        "select abalance from pgbench_accounts where aid = $1",
        &[Account][..],
    );
    let add = |table: &str, column: &str, key: &str| {
        format!("update pgbench_{table} set {column} = {column} + $1 where {key} = $2")
    };
    let accounts = add("accounts", "abalance", "aid");
    let tellers = add("tellers", "tbalance", "tid");
    let branches = add("branches", "bbalance", "bid");
    let history = "insert into pgbench_history (tid, bid, aid, delta, mtime) \
                   values ($1, $2, $3, $4, current_timestamp)";
    let history = (history, &[Teller, Branch, Account, Delta][..]);
    let (begin, end) = (("begin", &[][..]), ("end", &[][..]));
    let update = (accounts.as_str(), &[Delta, Account][..]);
    let statements = match name {
        ScriptName::SelectOnly => vec![select],
        ScriptName::SimpleUpdate => vec![begin, update, select, history, end],
        ScriptName::TpcbLike => vec![
            begin,
            update,
            select,
            (tellers.as_str(), &[Delta, Teller][..]),
            (branches.as_str(), &[Delta, Branch][..]),
            history,
            end,
        ],
    };
    let statements = statements.into_iter().enumerate();
    Script {
        statements: statements
            .map(|(number, (text, parameters))| encode(number, text, parameters))
            .collect(),
        scale,
    }
}

fn encode(number: usize, text: &str, parameters: &[Parameter]) -> Statement {
    let name = format!("s{number}");
    let count = u16::try_from(parameters.len()).unwrap_or(0);
    let mut parse = Vec::new();
    message(&mut parse, b'P', |body| {
        string(body, &name);
        string(body, text);
        body.extend_from_slice(&count.to_be_bytes());
        for _ in parameters {
            body.extend_from_slice(&INT4_OID.to_be_bytes());
        }
    });
    let mut bytes = Vec::new();
    let mut places = Vec::new();
    message(&mut bytes, b'B', |body| {
        string(body, "");
        string(body, &name);
        body.extend_from_slice(&[0, 1, 0, 1]); // one format for all: binary
        body.extend_from_slice(&count.to_be_bytes());
        for &parameter in parameters {
            body.extend_from_slice(&4u32.to_be_bytes());
            places.push((body.len(), parameter));
            body.extend_from_slice(&[0; 4]);
        }
        body.extend_from_slice(&[0, 0]); // results in text
    });
    message(&mut bytes, b'E', |body| {
        string(body, "");
        body.extend_from_slice(&[0; 4]);
    });
    message(&mut bytes, b'S', |_| {});
    Statement {
        message: bytes,
        places,
        parse,
    }
}

/// Appends a message: its type, its length, and what `write` puts into its body.
pub fn message(out: &mut Vec<u8>, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a string and its final zero.
pub fn string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}
