//! The built-in scripts of pgbench, under its names.

/// Their names, in pgbench's order.
pub const BUILTIN_NAMES: [&str; 3] = ["tpcb-like", "simple-update", "select-only"];

/// The text of a built-in script; `None` if there is none of this name.
#[must_use]
pub fn builtin(name: &str) -> Option<&'static str> {
    match name {
        "tpcb-like" => Some(include_str!("builtin/tpcb-like.sql")),
        "simple-update" => Some(include_str!("builtin/simple-update.sql")),
        "select-only" => Some(include_str!("builtin/select-only.sql")),
        _ => None,
    }
}
