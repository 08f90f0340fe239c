//! Transactions that leave a witness: a statement, just before a script's last COMMIT, that notes in
//! the database what the ack ledger records outside it. After a crash the two are compared.
//!
//! A script without a block becomes one, so that the witness is there if and only if the
//! transaction is. Where it cannot become one (an error is expected, or a statement is not executed
//! in a block), the witness is a transaction of its own, and the script's last.

use super::block::{self, Addition, Before};
use crate::script::{Command, Names, Script, ScriptError, Source, Statement};

const NAME: &str = "witness";

/// The script that brings the witness. It is parsed together with the group's scripts and is not
/// one of them.
#[must_use]
pub fn source(text: &str) -> Source<'_> {
    Source {
        name: NAME,
        text,
        file: NAME,
    }
}

/// The witness's one command.
///
/// # Errors
/// It is something else than one statement that stands for itself.
pub fn command(mut source: Script) -> Result<Command, ScriptError> {
    let refuse = |script: &Script, place| {
        let message = "a witness is one statement, without meta-commands";
        let hint = "write INSERT INTO … VALUES (:client_id, :txn)";
        Err(script.error_at(place, message, hint))
    };
    match source.commands.as_slice() {
        [Command::Sql(statement)] if is_plain(statement) => {}
        [_] => return refuse(&source, 0),
        _ => return refuse(&source, 1),
    }
    let mut witness = source.commands.remove(0);
    if let Command::Sql(statement) = &mut witness {
        statement.redirect(Names::CLIENT_ID, Names::WITNESS_CLIENT_ID);
        statement.redirect(Names::TXN, Names::WITNESS_TXN);
    }
    Ok(witness)
}

fn is_plain(statement: &Statement) -> bool {
    let plain = !statement.joined && !statement.copy_in && statement.expect.is_none();
    plain && statement.rows.is_none() && statement.capture.is_none()
}

/// A script that leaves the witness.
///
/// # Errors
/// There is no place for it.
pub fn leave(script: Script, block: &Script, witness: &Command) -> Result<Script, ScriptError> {
    let bounds = block::bounds(&script, NAME)?;
    let failing = script.commands.iter().position(
        |command| matches!(command, Command::Sql(statement) if statement.expect.is_some()),
    );
    if bounds.begin.is_none() && bounds.ends.is_empty() {
        if failing.is_some() || block::unwrappable(&script).is_some() {
            let end = script.commands.len();
            return Ok(block::insert(script, &[(end, witness.clone())]));
        }
    } else if let Some(failing) = failing
        && bounds.begin.is_none_or(|begin| failing > begin)
        && bounds.ends.last().is_some_and(|last| failing < *last)
    {
        let message = "a transaction in which an error is expected cannot write a witness";
        let hint = "move the statement out of the block, or to a separate script";
        return Err(script.error_at(failing, message, hint));
    }
    let addition = Addition {
        name: NAME,
        command: witness,
        before: Before::Last,
    };
    block::add(script, block, &addition)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::block::{
        BLOCK,
        tests::{parsed, texts},
    };

    const WITNESS: &str = "insert into w values (7, :client_id, :txn)";

    fn left(text: &str) -> Result<Script, ScriptError> {
        let (script, mut others) = parsed(text, &[BLOCK, source(WITNESS)]);
        let witness = command(others.remove(1)).expect("one statement");
        leave(script, &others[0], &witness)
    }

    fn refused(text: &str) -> String {
        left(text).expect_err("refused").to_string()
    }

    #[test]
    fn the_witness_comes_before_the_last_commit() {
        let script = left("begin; select 1; commit; begin; select 2; end; select 3;").expect("ok");
        let wanted = ["begin", "select 1", "commit", "begin", "select 2"];
        assert_eq!(texts(&script)[..5], wanted);
        assert_eq!(texts(&script)[5..], [WITNESS, "end", "select 3"]);
        let positions: Vec<usize> = script.statements().map(|s| s.position).collect();
        assert_eq!(positions, (0..8).collect::<Vec<_>>());
        assert_eq!(script.origins.len(), script.commands.len());
    }

    #[test]
    fn a_script_without_a_block_becomes_one() {
        let script = left("insert into t values (:txn);\nselect 2").expect("ok");
        let wanted = ["begin", "insert into t values (:txn)", "select 2"];
        assert_eq!(texts(&script)[..3], wanted);
        assert_eq!(texts(&script)[3..], [WITNESS, "commit"]);
    }

    #[test]
    fn where_a_block_cannot_be_the_witness_is_by_itself() {
        for text in ["\\expect 42601\nnonsense;", "vacuum t;"] {
            let script = left(text).expect("ok");
            assert_eq!(texts(&script).len(), 2);
            assert_eq!(texts(&script)[1], WITNESS);
        }
    }

    #[test]
    fn a_script_cannot_change_what_the_witness_says() {
        let text = "\\set txn 5\n\\set client_id :txn\nselect :txn, :client_id;";
        let script = left(text).expect("ok");
        let statements: Vec<&Statement> = script.statements().collect();
        let witness = [Names::WITNESS_CLIENT_ID, Names::WITNESS_TXN];
        assert_eq!(statements[1].parameters, [Names::TXN, Names::CLIENT_ID]);
        assert_eq!(statements[2].parameters, witness);
        assert_eq!(
            statements[2].parameterized,
            "insert into w values (7, $1, $2)"
        );
    }

    #[test]
    fn where_there_is_no_place_that_is_said() {
        let branch = "begin;\n\\if 1\ncommit;\n\\else\nrollback;\n\\endif\n";
        assert!(refused(branch).contains("not every run"));
        assert!(refused("begin; select 1;").contains("this transaction has none"));
        assert!(refused("begin\\; select 1\\; commit;").contains("joined statements"));
        assert!(refused("\\startpipeline\nselect 1;\n\\endpipeline\n").contains("pipeline"));
        let expected = "begin;\n\\expect 23505\nselect 1;\ncommit;";
        assert!(refused(expected).contains("error is expected"));
        assert!(left("begin; select 1; commit;\n\\expect 42601\nnonsense;").is_ok());
        assert!(left("\\expect 42601\nnonsense;\nbegin; select 1; commit;").is_ok());
    }

    #[test]
    fn a_witness_is_one_statement() {
        for text in [
            "select 1; select 2",
            "\\set a 1\nselect :a",
            "select 1 \\; select 2",
            "select 1 as a \\gset",
        ] {
            let (_, mut others) = parsed("select 1", &[source(text)]);
            let error = command(others.remove(0)).expect_err("refused");
            assert!(error.to_string().contains("one statement"), "{text}");
        }
    }
}
