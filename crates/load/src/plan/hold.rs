//! Transactions that are held open: a script's commands with a pause before its COMMIT, as an
//! application has that does something else while its transaction is open.

use super::block::{self, Addition, Before};
use crate::script::{Command, Script, ScriptError, Sleep};

/// A script with a pause of `time_ms` before each COMMIT or END; if it has no block it becomes one,
/// between the statements of `block`.
///
/// # Errors
/// It cannot be held open.
pub fn hold_open(script: Script, block: &Script, time_ms: u64) -> Result<Script, ScriptError> {
    let addition = Addition {
        name: "hold_open_ms",
        command: &Command::Sleep(Sleep::milliseconds(time_ms)),
        before: Before::Each,
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

    fn held(text: &str) -> Result<Script, ScriptError> {
        let (script, others) = parsed(text, &[BLOCK]);
        hold_open(script, &others[0], 5)
    }

    fn refused(text: &str) -> String {
        held(text).expect_err("refused").to_string()
    }

    #[test]
    fn a_block_pauses_before_its_end() {
        for end in ["commit", "END", "commit work", "/* x */ Commit and chain"] {
            let script = held(&format!("begin; select 1; {end}; select 2;")).expect("fine");
            assert_eq!(
                texts(&script),
                ["begin", "select 1", "pause", end, "select 2"]
            );
            assert_eq!(script.origins.len(), script.commands.len());
        }
    }

    #[test]
    fn a_script_without_a_block_becomes_one() {
        let script = held("select 1;\nselect 2").expect("fine");
        assert_eq!(
            texts(&script),
            ["begin", "select 1", "select 2", "pause", "commit"]
        );
        let positions: Vec<usize> = script.statements().map(|s| s.position).collect();
        assert_eq!(positions, [0, 1, 2, 3]);
        let other = held("select 'begin; commit'; select 2").expect("fine");
        assert_eq!(texts(&other).len(), 5);
    }

    #[test]
    fn jumps_lead_where_they_led() {
        let script = held("\\if 1\nselect 1;\n\\else\nselect 2;\n\\endif\n").expect("fine");
        assert_eq!(
            texts(&script),
            [
                "begin", "unless 4", "select 1", "jump 5", "select 2", "pause", "commit"
            ]
        );
        let block = "begin;\n\\if 1\nselect 1;\n\\else\nselect 2;\n\\endif\ncommit;";
        assert_eq!(
            texts(&held(block).expect("fine")),
            [
                "begin", "unless 4", "select 1", "jump 5", "select 2", "pause", "commit"
            ]
        );
    }

    #[test]
    fn what_cannot_be_held_open_is_refused() {
        assert!(refused("begin; select 1;").contains("before a COMMIT"));
        assert!(refused("begin; select 1; rollback;").contains("before a COMMIT"));
        assert!(refused("begin\\; select 1\\; commit;").contains("joined statements"));
        let pipeline = "\\startpipeline\nselect 1;\n\\endpipeline\n";
        assert!(refused(pipeline).contains("pipeline"));
        assert!(refused("commit prepared 'x';").contains("needs a transaction block"));
    }
}
