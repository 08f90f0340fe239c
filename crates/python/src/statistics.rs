//! Distributions and tests of the crate `statrs` for Python: used by `src/pgdyno/stats`.

use std::fmt::Display;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use statrs::distribution::{Beta, ContinuousCDF, StudentsT};
use statrs::stats_tests::{Alternative, fisher};

fn invalid(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn student_t(freedom: f64) -> PyResult<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom).map_err(invalid)
}

/// A probability strictly between 0 and 1, which is where quantiles are finite.
fn probability(p: f64) -> PyResult<f64> {
    if p > 0.0 && p < 1.0 {
        Ok(p)
    } else {
        Err(invalid(format!("{p} is not between 0 and 1")))
    }
}

#[pyfunction]
pub fn student_t_cdf(freedom: f64, t: f64) -> PyResult<f64> {
    Ok(student_t(freedom)?.cdf(t))
}

#[pyfunction]
pub fn student_t_quantile(freedom: f64, p: f64) -> PyResult<f64> {
    Ok(student_t(freedom)?.inverse_cdf(probability(p)?))
}

#[pyfunction]
pub fn beta_quantile(a: f64, b: f64, p: f64) -> PyResult<f64> {
    let beta = Beta::new(a, b).map_err(invalid)?;
    Ok(beta.inverse_cdf(probability(p)?))
}

#[pyfunction]
pub fn fisher_exact(table: [u64; 4]) -> PyResult<f64> {
    let p = fisher::fishers_exact(&table, Alternative::TwoSided).map_err(invalid)?;
    Ok(p.min(1.0))
}
