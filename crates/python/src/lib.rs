//! `pgdyno._engine`: the load engine and the recording disk as Python sees them. Glue only;
//! `src/pgdyno/_engine.pyi` has the contract in Python's words.

mod blackout;
mod error;
mod histogram;
mod load;
mod made;
mod statistics;

use pgdyno_load::script::{self, BUILTIN_NAMES, Command, Script, Source, builtin};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::script_error;

/// The engine's version, build profile and target.
#[pyfunction]
fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let info = PyDict::new(py);
    info.set_item("version", env!("CARGO_PKG_VERSION"))?;
    info.set_item(
        "profile",
        if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        },
    )?;
    info.set_item("target", env!("PGDYNO_TARGET"))?;
    Ok(info)
}

/// pgbench's built-in scripts, by name.
#[pyfunction]
fn builtin_scripts(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let scripts = PyDict::new(py);
    for name in BUILTIN_NAMES {
        scripts.set_item(name, builtin(name))?;
    }
    Ok(scripts)
}

/// Parses a script; returns its statements, and the variables that it needs from outside.
#[pyfunction]
#[pyo3(signature = (text, file, defined=Vec::new()))]
fn check_script<'py>(
    py: Python<'py>,
    text: &str,
    file: &str,
    defined: Vec<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let sources = [Source {
        name: file,
        text,
        file,
    }];
    let defined: Vec<&str> = defined.iter().map(String::as_str).collect();
    let group = script::parse(&sources, &defined).map_err(|error| script_error(py, &error))?;
    let statements: Vec<&str> = group
        .scripts
        .iter()
        .flat_map(|s| s.statements())
        .map(|s| s.text.as_str())
        .collect();
    let unset: Vec<&str> = group
        .scripts
        .iter()
        .flat_map(|s| &s.variables_unset)
        .map(String::as_str)
        .collect();
    let found = PyDict::new(py);
    found.set_item("statements", statements)?;
    found.set_item("sent", sent(py, &group.scripts)?)?;
    found.set_item("variables_used", unset)?;
    Ok(found)
}

/// The statements that can be prepared as they are: no requests, no data of COPY, none that `\rows`
/// completes, and none that consists of several.
fn sent<'py>(py: Python<'py>, scripts: &[Script]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let mut found = Vec::new();
    for script in scripts {
        for (command, origin) in script.commands.iter().zip(&script.origins) {
            let Command::Sql(statement) = command else {
                continue;
            };
            let whole = statement.request.is_none() && statement.rows.is_none();
            if !whole || statement.joined || statement.copy_in {
                continue;
            }
            let each = PyDict::new(py);
            let expect = statement.expect.map(|code| code.map(char::from));
            each.set_item("text", &statement.text)?;
            each.set_item("parameterized", &statement.parameterized)?;
            each.set_item("simple_only", statement.simple_only)?;
            each.set_item("expect", expect.map(String::from_iter))?;
            each.set_item("line", origin.line)?;
            each.set_item("column", origin.column)?;
            found.push(each);
        }
    }
    Ok(found)
}

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    error::register(module)?;
    module.add_function(wrap_pyfunction!(build_info, module)?)?;
    module.add_function(wrap_pyfunction!(builtin_scripts, module)?)?;
    module.add_function(wrap_pyfunction!(check_script, module)?)?;
    module.add_function(wrap_pyfunction!(statistics::student_t_cdf, module)?)?;
    module.add_function(wrap_pyfunction!(statistics::student_t_quantile, module)?)?;
    module.add_function(wrap_pyfunction!(statistics::beta_quantile, module)?)?;
    module.add_function(wrap_pyfunction!(statistics::fisher_exact, module)?)?;
    module.add_class::<histogram::Histogram>()?;
    module.add_class::<load::Load>()?;
    module.add_class::<made::MadeRows>()?;
    module.add_class::<blackout::DiskServer>()?;
    module.add_class::<blackout::DiskLogs>()?;
    module.add_class::<blackout::Cut>()
}
