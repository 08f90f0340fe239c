//! Python's exceptions for the engine's errors.

use pgdyno_blackout::BlackoutError;
use pgdyno_load::script;
use pgdyno_load::{LoadError, PlanError};
use pyo3::prelude::*;

pyo3::create_exception!(
    pgdyno._engine,
    EngineError,
    pyo3::exceptions::PyException,
    "The engine cannot do what was asked. Attributes: code, message, hint."
);
pyo3::create_exception!(
    pgdyno._engine,
    ScriptError,
    EngineError,
    "A script cannot be used. Attributes also: file, line, column (1-based)."
);

/// Puts the exception types into the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("EngineError", module.py().get_type::<EngineError>())?;
    module.add("ScriptError", module.py().get_type::<ScriptError>())
}

/// An [`EngineError`] for an error of the load engine.
pub fn engine_error(py: Python<'_>, error: &LoadError) -> PyErr {
    raised(py, error.code, &error.message, error.hint.as_deref())
}

/// An [`EngineError`] for an error of the recording disk.
pub fn blackout_error(py: Python<'_>, error: &BlackoutError) -> PyErr {
    raised(py, error.code, &error.message, error.hint.as_deref())
}

fn raised(py: Python<'_>, code: &str, message: &str, hint: Option<&str>) -> PyErr {
    let raised = EngineError::new_err(message.to_owned());
    let set = |raised: &Bound<'_, PyAny>| {
        raised.setattr("code", code)?;
        raised.setattr("message", message)?;
        raised.setattr("hint", hint)
    };
    set(raised.value(py).as_any()).err().unwrap_or(raised)
}

/// A [`ScriptError`].
pub fn script_error(py: Python<'_>, error: &script::ScriptError) -> PyErr {
    let raised = ScriptError::new_err(error.to_string());
    let set = |raised: &Bound<'_, PyAny>| {
        raised.setattr("code", "script-invalid")?;
        raised.setattr("message", error.to_string())?;
        raised.setattr("hint", &error.hint)?;
        raised.setattr("file", &error.file)?;
        raised.setattr("line", error.line)?;
        raised.setattr("column", error.column)
    };
    set(raised.value(py).as_any()).err().unwrap_or(raised)
}

/// Whichever of the two it is.
pub fn plan_error(py: Python<'_>, error: &PlanError) -> PyErr {
    match error {
        PlanError::Load(error) => engine_error(py, error),
        PlanError::Script(error) => script_error(py, error),
    }
}
