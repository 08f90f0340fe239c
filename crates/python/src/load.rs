//! `Load` for Python.

use std::time::Duration;

use pgdyno_load::{
    ErrorRow, GroupRow, HttpRow, Interval, Load as Inner, SampledTransaction, ScriptRow, State,
    StatementRow, ThreadRow,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::error::{engine_error, plan_error};

/// A load on a server; see the stub file.
#[pyclass(module = "pgdyno._engine", frozen)]
pub struct Load(Inner);

#[pymethods]
impl Load {
    #[new]
    fn new(py: Python<'_>, config_json: &str) -> PyResult<Self> {
        Inner::new(config_json)
            .map(Self)
            .map_err(|error| plan_error(py, &error))
    }

    #[pyo3(signature = (tag = None))]
    fn start(&self, py: Python<'_>, tag: Option<i64>) -> PyResult<u64> {
        py.detach(|| self.0.start(tag))
            .map_err(|error| engine_error(py, &error))
    }

    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let intervals = py.detach(|| self.0.poll());
        intervals
            .iter()
            .map(|interval| interval_dict(py, interval))
            .collect()
    }

    fn end_interval(&self, py: Python<'_>, tag: Option<i64>) -> u64 {
        py.detach(|| self.0.end_interval(tag))
    }

    fn set_clients(&self, py: Python<'_>, group: &str, n: u32) -> PyResult<()> {
        py.detach(|| self.0.set_clients(group, n))
            .map_err(|error| engine_error(py, &error))
    }

    fn set_pool_max(&self, py: Python<'_>, group: &str, n: Option<u32>) -> PyResult<()> {
        py.detach(|| self.0.set_pool_max(group, n))
            .map_err(|error| engine_error(py, &error))
    }

    fn set_rate(&self, py: Python<'_>, group: &str, factor: f64) -> PyResult<()> {
        py.detach(|| self.0.set_rate(group, factor))
            .map_err(|error| engine_error(py, &error))
    }

    fn set_session(&self, py: Python<'_>, sql: &str) -> PyResult<()> {
        py.detach(|| self.0.set_session(sql))
            .map_err(|error| engine_error(py, &error))
    }

    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(facts) = self.0.facts() else {
            return Ok(None);
        };
        let dict = PyDict::new(py);
        dict.set_item("reactor", facts.reactor)?;
        dict.set_item("reactor_why", facts.reactor_why)?;
        dict.set_item("cpus", facts.cpus)?;
        dict.set_item("nice", facts.nice)?;
        Ok(Some(dict))
    }

    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let samples = py.detach(|| self.0.samples());
        list(py, &samples, sample_dict)
    }

    fn state(&self) -> &'static str {
        match self.0.state() {
            State::New => "new",
            State::Running => "running",
            State::Stopping => "stopping",
            State::Stopped => "stopped",
        }
    }

    fn stop(&self, py: Python<'_>, drain_ms: u64) {
        py.detach(|| self.0.stop(Duration::from_millis(drain_ms)));
    }

    fn connections(&self) -> usize {
        self.0.connections()
    }

    fn fatal<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(error) = self.0.fatal() else {
            return Ok(None);
        };
        let fatal = PyDict::new(py);
        fatal.set_item("code", error.code)?;
        fatal.set_item("message", error.message)?;
        fatal.set_item("hint", error.hint)?;
        Ok(Some(fatal))
    }
}

/// A dict of a row's fields, by their own names; those after `;` are bytes.
macro_rules! dict {
    ($py:expr, $row:expr, $($field:ident),+ $(; $($bytes:ident),+)?) => {{
        let dict = PyDict::new($py);
        $(dict.set_item(stringify!($field), &$row.$field)?;)+
        $($(dict.set_item(stringify!($bytes), PyBytes::new($py, &$row.$bytes))?;)+)?
        dict
    }};
}

fn interval_dict<'py>(py: Python<'py>, interval: &Interval) -> PyResult<Bound<'py, PyDict>> {
    let dict = dict!(py, interval, started_ns, ended_ns, tag);
    dict.set_item("scripts", list(py, &interval.scripts, script_dict)?)?;
    dict.set_item("groups", list(py, &interval.groups, group_dict)?)?;
    dict.set_item(
        "statements",
        list(py, &interval.statements, statement_dict)?,
    )?;
    dict.set_item("errors", list(py, &interval.errors, error_dict)?)?;
    dict.set_item("reports", list(py, &interval.reports, error_dict)?)?;
    dict.set_item("threads", list(py, &interval.threads, thread_dict)?)?;
    Ok(dict)
}

fn list<'py, T>(
    py: Python<'py>,
    rows: &[T],
    make: fn(Python<'py>, &T) -> PyResult<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyList>> {
    let dicts = rows
        .iter()
        .map(|row| make(py, row))
        .collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, dicts)
}

fn sample_dict<'py>(py: Python<'py>, sample: &SampledTransaction) -> PyResult<Bound<'py, PyDict>> {
    let dict = dict!(py, sample, group, script);
    let statements = list(py, &sample.statements, |py, each| {
        Ok(dict!(
            py,
            each,
            position,
            text,
            parameterized,
            parameters,
            captures
        ))
    })?;
    dict.set_item("statements", statements)?;
    Ok(dict)
}

fn script_dict<'py>(py: Python<'py>, row: &ScriptRow) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(
        py, row, group, script, intended, sent, done, failed, skipped, cancelled, backlog, retried,
        expected_errors, late;
        response, wait, client_lag, pool_wait, connect, service
    ))
}

fn group_dict<'py>(py: Python<'py>, row: &GroupRow) -> PyResult<Bound<'py, PyDict>> {
    let dict = dict!(
        py, row, group, clients, connections, connects, reconnects, connect_failures, unanswered,
        unanswered_us_max;
        tcp, tls, auth, ready, total, silence
    );
    let http = row
        .http
        .as_ref()
        .map(|row| http_dict(py, row))
        .transpose()?;
    dict.set_item("http", http)?;
    Ok(dict)
}

fn statement_dict<'py>(py: Python<'py>, row: &StatementRow) -> PyResult<Bound<'py, PyDict>> {
    let dict = dict!(
        py, row, group, script, position, statement, done, failed, untouched;
        service
    );
    let first_byte = row.first_byte.as_ref();
    dict.set_item(
        "first_byte",
        first_byte.map(|bytes| PyBytes::new(py, bytes)),
    )?;
    Ok(dict)
}

fn http_dict<'py>(py: Python<'py>, row: &HttpRow) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(
        py,
        row,
        requests,
        reused,
        redirected,
        status_1xx,
        status_2xx,
        status_3xx,
        status_4xx,
        status_5xx,
        closed_by_server,
        sent_bytes,
        received_bytes
    ))
}

fn error_dict<'py>(py: Python<'py>, row: &ErrorRow) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(
        py, row, group, script, file, line, statement, client, sqlstate, expected, retried, count,
        message, detail, hint, context, excerpt, advice
    ))
}

fn thread_dict<'py>(py: Python<'py>, row: &ThreadRow) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(
        py, row, thread, cpu_user_us, cpu_system_us, run_queue_delay_us, passes, loop_stall_us_max;
        send_late
    ))
}
