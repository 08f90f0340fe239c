//! Meta-commands of psql that scripts cannot have, and what to use instead.

/// Commands that do the same kind of thing, and what to use instead.
const INSTEAD: [(&[&str], &str); 20] = [
    (
        &["i", "include", "ir", "include_relative"],
        "pass each file with -f, or put its text here",
    ),
    (
        &["timing"],
        "leave it out: the time of every statement is measured, and -r prints it",
    ),
    (
        &["copy"],
        "write copy t from stdin followed by \\rows, which generates rows; or COPY from a file \
         that the \
         server can read",
    ),
    (
        &["echo", "qecho", "warn", "p", "print"],
        "leave it out; \\set x debug(:x) shows a value on standard error",
    ),
    (
        &["gexec"],
        "have psql write the statements to a file once, and pass it with -f",
    ),
    (
        &["gdesc", "gx", "g", "crosstabview"],
        "end the statement with a semicolon; results are discarded",
    ),
    (
        &["watch"],
        "leave it out: a script is executed repeatedly, and -R sets the rate",
    ),
    (
        &["c", "connect", "conninfo"],
        "name the database with -d; each group of a spec has its own connections, and -C opens one \
         for each transaction",
    ),
    (
        &["prompt", "getenv"],
        "define the variable with -D NAME=VALUE",
    ),
    (&["unset"], "set it to null: \\set NAME null"),
    (
        &["!", "cd"],
        "a load generator that starts programs would measure them; do it before the run",
    ),
    (
        &["o", "out", "w", "write", "s"],
        "leave it out: results are discarded",
    ),
    (
        &["pset", "x", "t", "T", "a", "f", "H", "html", "C"],
        "leave it out: results are not shown",
    ),
    (
        &["q", "quit"],
        "a script ends with its last line; put what follows into \\if … \\endif",
    ),
    (
        &["bind", "bind_named", "parse", "close_prepared"],
        "with -M extended or -M prepared every :variable is sent as a parameter",
    ),
    (
        &["flush", "flushrequest", "getresults", "sendpipeline"],
        "use \\startpipeline, \\syncpipeline and \\endpipeline",
    ),
    (
        &[
            "encoding",
            "password",
            "errverbose",
            "restrict",
            "unrestrict",
        ],
        "leave it out; scripts are UTF-8, and --verbose-errors prints every error",
    ),
    (
        &["ef", "ev", "e", "edit", "r", "reset"],
        "leave it out: a script cannot be interactive",
    ),
    (
        &["h", "help", "?"],
        "docs/guides/scripts.md describes what a script can contain",
    ),
    (
        &[
            "l",
            "z",
            "sf",
            "sv",
            "lo_export",
            "lo_import",
            "lo_list",
            "lo_unlink",
        ],
        "only psql does that; a script can query the system catalogs",
    ),
];

/// Return the replacement for psql's `\word`; `None` if psql has no such meta-command.
pub(super) fn instead_of(word: &str) -> Option<&'static str> {
    let plain = word.trim_end_matches('+');
    let found = INSTEAD.iter().find(|(names, _)| names.contains(&plain));
    let describes = plain.starts_with('d') && plain.len() <= 4;
    let catalogs = "only psql describes objects; query the system catalogs before the run";
    found
        .map(|(_, instead)| *instead)
        .or_else(|| describes.then_some(catalogs))
}
