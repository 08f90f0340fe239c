//! The effect that a statement can have on its transaction, judged by its keywords.
//!
//! The ack ledger calls an outcome known only where it is: in doubt a statement may commit.

use crate::script::Statement;

/// The effect that a statement can have on a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// It begins a transaction block and does nothing else.
    pub opens: bool,
    /// Within a block: it may commit it.
    may_commit: bool,
    /// Within a block: it is COMMIT or END, and does nothing else.
    pub commits: bool,
    /// It undoes what was done before in the block.
    pub undoes: bool,
    /// The server may answer that it rolled back, as the script wants it.
    pub rolls_back: bool,
}

impl Effect {
    /// Of a statement as it stands in the script.
    #[must_use]
    pub fn of(statement: &Statement) -> Self {
        let text = statement.text.trim_start().to_ascii_lowercase();
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let words: Vec<&str> = text.split(|c| !is_word(c)).collect();
        let first = words.first().copied().unwrap_or_default();
        let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
        let undo = ["rollback", "abort"];
        Self {
            opens: ["begin", "start"].contains(&first) && !statement.joined,
            // A statement that begins with a variable can be anything.
            commits: ["commit", "end"].contains(&first) && !statement.joined && !has(&["prepared"]),
            may_commit: text.starts_with(':') || has(&["commit", "end", "prepare"]),
            undoes: if statement.joined {
                has(&undo)
            } else {
                undo.contains(&first) && !has(&["to", "prepared"])
            },
            rolls_back: text.starts_with(':') || has(&undo),
        }
    }

    /// True if it may commit something when it is executed; `in_block`: within a transaction block.
    #[must_use]
    pub fn may_commit(self, in_block: bool) -> bool {
        if in_block {
            self.may_commit
        } else {
            !self.opens
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Source, parse};

    fn effects(text: &str) -> Vec<Effect> {
        let (name, file) = ("s", "s.sql");
        let group = parse(&[Source { name, text, file }], &[]).expect("a valid script");
        group.scripts[0].statements().map(Effect::of).collect()
    }

    #[test]
    fn in_a_block_only_some_statements_can_commit() {
        let text = "begin; insert into t values (1); savepoint s; rollback to s; COMMIT;";
        let effects = effects(text);
        let in_block: Vec<bool> = effects.iter().map(|e| e.may_commit(true)).collect();
        assert_eq!(in_block, [false, false, false, false, true]);
        let alone: Vec<bool> = effects.iter().map(|e| e.may_commit(false)).collect();
        assert_eq!(alone, [false, true, true, true, true]);
        assert!(effects.iter().all(|e| !e.undoes));
    }

    #[test]
    fn only_commit_and_end_alone_commit() {
        let commits = "commit; END work; commit and chain;";
        assert!(effects(commits).iter().all(|e| e.commits));
        let others = "commit prepared 'x'; select 1 \\; commit; begin; rollback to s;";
        assert!(effects(others).iter().all(|e| !e.commits));
    }

    #[test]
    fn in_doubt_a_statement_may_commit() {
        let text =
            "select 1 \\; commit; select case when true then 1 end; prepare transaction 'x';";
        assert!(effects(text).iter().all(|e| e.may_commit(true)));
        assert!(effects("/* begin */ insert into t values (1);")[0].may_commit(false));
        assert!(effects("begin \\; insert into t values (1) \\; commit;")[0].may_commit(false));
        assert!(effects("\\set x 1\n:x;")[0].may_commit(true));
    }

    #[test]
    fn a_rollback_undoes_wherever_it_stands() {
        let text = "rollback; abort work; begin \\; insert into t values (1) \\; rollback;";
        assert!(effects(text).iter().all(|e| e.undoes));
        assert!(!effects("rollback prepared 'x';")[0].undoes);
    }

    #[test]
    fn only_a_rollback_is_to_be_answered_with_one() {
        let wanted = "rollback; abort; rollback to s; /* x */ rollback; select 1 \\; rollback;";
        assert!(effects(wanted).iter().all(|e| e.rolls_back));
        let others = "begin; commit; end; commit and chain; insert into t values (1);";
        assert!(effects(others).iter().all(|e| !e.rolls_back));
    }
}
