//! The recording disk and its power cuts for Python; see the stub file.

use std::path::PathBuf;

use pgdyno_blackout as blackout;
use pgdyno_blackout::{BlackoutError, Keep};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList};

use crate::error::blackout_error;

/// A value, or Python's exception.
fn raised<T>(py: Python<'_>, result: Result<T, BlackoutError>) -> PyResult<T> {
    result.map_err(|error| blackout_error(py, &error))
}

/// A dict of a value's fields, by their own names.
macro_rules! fields {
    ($py:expr, $value:expr, $($field:ident),+) => {{
        let dict = PyDict::new($py);
        $(dict.set_item(stringify!($field), $value.$field)?;)+
        dict
    }};
}

/// A disk on a mount point.
#[pyclass(module = "pgdyno._engine", frozen)]
pub struct DiskServer(blackout::DiskServer);

#[pymethods]
impl DiskServer {
    #[new]
    fn new(py: Python<'_>, config_json: &str) -> PyResult<Self> {
        let server = py.detach(|| blackout::DiskServer::mount(config_json));
        raised(py, server).map(Self)
    }

    fn serve(&self, py: Python<'_>) -> PyResult<()> {
        let served = py.detach(|| self.0.serve());
        raised(py, served)
    }

    fn hurry(&self) {
        self.0.hurry();
    }

    fn fail(&self, py: Python<'_>) {
        py.detach(|| self.0.fail());
    }

    fn start_recording(&self, py: Python<'_>, base: PathBuf, log: PathBuf) -> PyResult<()> {
        let started = py.detach(|| self.0.start_recording(&base, &log));
        raised(py, started)
    }

    fn stop_recording<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let stopped = py.detach(|| self.0.stop_recording());
        let Some(recorded) = raised(py, stopped)? else {
            return Ok(None);
        };
        Ok(Some(fields!(py, recorded, writes, bytes, flushes)))
    }
}

/// The logs of disks on one clock.
#[pyclass(module = "pgdyno._engine", frozen)]
pub struct DiskLogs(blackout::DiskLogs);

#[pymethods]
impl DiskLogs {
    #[new]
    fn new(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<Self> {
        let logs = py.detach(|| blackout::DiskLogs::open(&paths));
        raised(py, logs).map(Self)
    }

    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let facts = self.0.facts();
        let dict = |disk: &blackout::DiskFacts| {
            Ok(fields!(
                py, disk, disk_bytes, writes, bytes, flushes, first_ns, last_ns, torn
            ))
        };
        facts.iter().map(dict).collect()
    }

    fn ranked<'py>(
        &self,
        py: Python<'py>,
        count: usize,
        seed: u64,
        marks_ns: Vec<u64>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let times = py.detach(|| self.0.ranked(count, seed, &marks_ns));
        let dict = |time: &blackout::CutTime| {
            let dict = fields!(py, time, at_ns, pending_writes, pending_bytes);
            dict.set_item("why", time.why.name())?;
            Ok(dict)
        };
        times.iter().map(dict).collect()
    }

    fn cut(
        &self,
        py: Python<'_>,
        at_ns: u64,
        seed: u64,
        sector_bytes: u32,
        keep: &str,
    ) -> PyResult<Cut> {
        let keep = Keep::named(keep).ok_or_else(|| {
            BlackoutError::new("cut-invalid", format!("unknown value of keep: {keep:?}"))
                .hint("none, all, subset or garbage")
        });
        let keep = raised(py, keep)?;
        let cut = py.detach(|| self.0.cut(at_ns, seed, sector_bytes, keep));
        raised(py, cut).map(Cut::from)
    }

    fn advance(
        &self,
        py: Python<'_>,
        disk: usize,
        image_path: PathBuf,
        at_ns: u64,
    ) -> PyResult<()> {
        let advanced = py.detach(|| self.0.advance(disk, &image_path, at_ns));
        raised(py, advanced)
    }
}

/// A power cut.
#[pyclass(module = "pgdyno._engine", frozen)]
pub struct Cut {
    cut: blackout::Cut,
    /// There may be a million.
    rows: PyOnceLock<Py<PyList>>,
}

impl From<blackout::Cut> for Cut {
    fn from(cut: blackout::Cut) -> Self {
        Self {
            cut,
            rows: PyOnceLock::new(),
        }
    }
}

#[pymethods]
impl Cut {
    /// Disk, offset, and the number of the outcome.
    #[getter]
    fn sectors(&self, py: Python<'_>) -> PyResult<Py<PyList>> {
        let row = |sector: &blackout::Sector| (sector.disk, sector.offset, sector.outcome.number());
        let rows = self.rows.get_or_try_init(py, || {
            PyList::new(py, self.cut.sectors().iter().map(row)).map(Bound::unbind)
        });
        rows.map(|rows| rows.clone_ref(py))
    }

    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let facts = self.cut.facts();
        Ok(fields!(
            py,
            facts,
            at_ns,
            seed,
            sector_bytes,
            pending_writes,
            sectors,
            kept,
            garbage
        ))
    }

    fn without(&self, py: Python<'_>, indices: Vec<usize>) -> PyResult<Self> {
        raised(py, self.cut.without(&indices)).map(Self::from)
    }

    fn only(&self, py: Python<'_>, indices: Vec<usize>) -> PyResult<Self> {
        raised(py, self.cut.only(&indices)).map(Self::from)
    }

    fn write(&self, py: Python<'_>, disk: usize, image_path: PathBuf) -> PyResult<()> {
        let written = py.detach(|| self.cut.write(disk, &image_path));
        raised(py, written)
    }
}
