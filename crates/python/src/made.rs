//! `MadeRows` for Python.

use pgdyno_load::script::{MadeRows as Inner, Source};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::script_error;

/// The data of a COPY that `\rows` makes; see the stub file.
#[pyclass(module = "pgdyno._engine")]
pub struct MadeRows(Inner);

#[pymethods]
impl MadeRows {
    #[new]
    fn new(
        py: Python<'_>,
        text: &str,
        file: &str,
        variables: Vec<(String, String)>,
        seed: u64,
    ) -> PyResult<Self> {
        let source = Source {
            name: file,
            text,
            file,
        };
        Inner::new(&source, &variables, seed)
            .map(Self)
            .map_err(|error| script_error(py, &error))
    }

    fn piece<'py>(
        &mut self,
        py: Python<'py>,
        bytes: usize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let piece = py.detach(|| self.0.piece(bytes));
        let piece = piece.map_err(|error| script_error(py, &error))?;
        Ok(piece.map(|piece| PyBytes::new(py, &piece)))
    }
}
