//! `Histogram` for Python.

use pgdyno_load::{Histogram as Inner, LoadError};
use pyo3::prelude::*;

use crate::error::engine_error;

/// Counts of durations in nanoseconds: HDR, 2 significant digits, 1 hour at most.
#[pyclass(module = "pgdyno._engine")]
pub struct Histogram(Inner);

fn invalid(py: Python<'_>, why: String) -> PyErr {
    engine_error(py, &LoadError::new("histogram-invalid", why))
}

#[pymethods]
impl Histogram {
    #[new]
    fn new() -> Self {
        Self(Inner::new())
    }

    #[staticmethod]
    fn decode(py: Python<'_>, encoded: &[u8]) -> PyResult<Self> {
        Inner::decode(encoded)
            .map(Self)
            .map_err(|why| invalid(py, why))
    }

    fn encode(&self) -> Vec<u8> {
        self.0.encode()
    }

    fn add(&mut self, other: PyRef<'_, Self>) {
        self.0.add(&other.0);
    }

    fn add_encoded(&mut self, py: Python<'_>, encoded: &[u8]) -> PyResult<()> {
        self.0.add_encoded(encoded).map_err(|why| invalid(py, why))
    }

    #[pyo3(signature = (ns, count = 1))]
    fn record(&mut self, ns: u64, count: u64) {
        self.0.record_n(ns, count);
    }

    fn percentile(&self, p: f64) -> u64 {
        self.0.percentile_ns(p)
    }

    #[getter]
    fn count(&self) -> u64 {
        self.0.count()
    }

    #[getter]
    fn max(&self) -> u64 {
        self.0.max_ns()
    }

    #[getter]
    fn min(&self) -> u64 {
        self.0.min_ns()
    }

    #[getter]
    fn mean(&self) -> f64 {
        self.0.mean_ns()
    }

    fn count_between(&self, lo_ns: u64, hi_ns: u64) -> u64 {
        self.0.count_between(lo_ns, hi_ns)
    }

    fn buckets(&self) -> Vec<(u64, u64)> {
        self.0.buckets().collect()
    }

    fn __repr__(&self) -> String {
        format!("<Histogram of {} values>", self.0.count())
    }
}
