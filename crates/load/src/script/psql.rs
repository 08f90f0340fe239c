//! Meta-commands of psql that scripts cannot have, and what to use instead.

/// Commands that do the same kind of thing, and what to use instead.
const INSTEAD: [(&[&str], &str); 20] = [
    (
        &["i", "include", "ir", "include_relative"],
        "give the file itself with -f, as often as there are files; or put its text here",
    ),
    (
        &["timing"],
        "leave it out: the time of every statement is measured, and -r prints it",
    ),
    (
        &["copy"],
        "write copy t from stdin followed by \\rows, which makes rows up; or COPY from a file that the \
         server can read",
    ),
    (
        &["echo", "qecho", "warn", "p", "print"],
        "leave it out; \\set x debug(:x) shows a value on standard error",
    ),
    (
        &["gexec"],
        "have psql print the statements once, and give the file with -f",
    ),
    (
        &["gdesc", "gx", "g", "crosstabview"],
        "end the statement with a semicolon; results are thrown away",
    ),
    (
        &["watch"],
        "leave it out: a script is executed again and again, -R sets how often",
    ),
    (
        &["c", "connect", "conninfo"],
        "name the database with -d; groups of a spec have connections of their own, -C makes one for \
         each transaction",
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
        "leave it out: results are thrown away",
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
        "leave it out; scripts are UTF-8, and --verbose-errors tells every error",
    ),
    (
        &["ef", "ev", "e", "edit", "r", "reset"],
        "leave it out: only a person can edit",
    ),
    (
        &["h", "help", "?"],
        "docs/guides/scripts.md tells what a script can have",
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
        "only psql does that; a query of the system catalogs can stand in a script",
    ),
];

/// What to use instead of psql's `\word`; `None` if psql has none of that name.
pub(super) fn instead_of(word: &str) -> Option<&'static str> {
    let plain = word.trim_end_matches('+');
    let found = INSTEAD.iter().find(|(names, _)| names.contains(&plain));
    let describes = plain.starts_with('d') && plain.len() <= 4;
    let catalogs = "only psql describes objects; query the system catalogs before the run";
    found
        .map(|(_, instead)| *instead)
        .or_else(|| describes.then_some(catalogs))
}
