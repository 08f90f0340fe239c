"""Charts over time of a web front end that pgdyno started: its pool, and whose CPU time it is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pgdyno import numbers
from pgdyno.report import palette
from pgdyno.report.charts._series import Floats, floats
from pgdyno.report.charts.chart import Chart, KeyEntry, add_time_tooltip, source_of, time_figure
from pgdyno.report.charts.time_axis import TimeAxis, finish, stacked
from pgdyno.report.words.tables import figures_table

LENT, SIZE, WAITING = "connections lent", "size of the pool", "requests waiting for one"
_POOL = {LENT: palette.BLUE, SIZE: palette.GREY, WAITING: palette.RED}
_COLUMNS = {LENT: "pool_active", SIZE: "pool_max", WAITING: "pool_waiting"}
DATABASE, APPLICATION, GENERATOR = "database", "web application", "load generator"
_SIDES = {DATABASE: palette.BLUE, APPLICATION: palette.ORANGE, GENERATOR: palette.GREY}


def pool_of_front(axis: TimeAxis) -> Chart | None:
    """Return the chart of the pool's connections and of the requests that wait for them."""
    samples = axis.series("metric_front")
    if not len(samples["at_ms"]):
        return None
    at_ms = floats(samples["at_ms"])
    columns = {label: floats(samples[name]) for label, name in _COLUMNS.items()}
    if any(np.isnan(values).all() for values in columns.values()):
        return None  # A web server of the user's may not tell.
    at_ms, columns = axis.broken(at_ms, columns)
    source = source_of(at_ms, columns)
    plot = time_figure(axis.x_range, 200)
    for label, colour in _POOL.items():
        plot.step("x", label, source=source, mode="after", line_color=colour, line_width=1.8)
    add_time_tooltip(plot, source, {label: f"@{{{label}}}" for label in _POOL}, LENT)
    rows = [
        [label, numbers.significant(float(np.nanmean(values)), 3), f"{np.nanmax(values):.0f}"]
        for label, values in columns.items()
    ]
    return Chart(
        id="application-pool",
        title="The web application's pool of connections",
        description=f"On average {rows[0][1]} of {rows[1][1]} connections were lent, and"
        f" {rows[2][1]} requests waited for one.",
        plot=finish(axis, plot),
        table=figures_table("The application's pool", ["", "mean", "most"], rows),
        key=[KeyEntry(label, colour, "line") for label, colour in _POOL.items()],
    )


def cores_by_side(axis: TimeAxis) -> Chart | None:
    """Return the chart of the cores that database, application and load generator use."""
    machine = axis.series("metric_jvm")
    if len(machine["at_ms"]) < 2:
        return None
    at_ms = floats(machine["at_ms"])
    middles = (at_ms[1:] + at_ms[:-1]) / 2
    across = np.diff(axis.timeline.number_of(at_ms)) != 0
    columns = {
        DATABASE: _database_cores(axis, at_ms),
        APPLICATION: _rate(at_ms, floats(machine["cpu_ms"])),
        GENERATOR: _generator_cores(axis, at_ms),
    }
    columns = {name: np.where(across, np.nan, values) for name, values in columns.items()}
    means = {name: float(np.nan_to_num(np.nanmean(each))) for name, each in columns.items()}
    rows = [[name, numbers.significant(mean, 2)] for name, mean in means.items()]
    return Chart(
        id="cores-by-side",
        title="Cores in use, by side",
        description=f"On average the database used {rows[0][1]} cores, the web application"
        f" {rows[1][1]} and the load generator {rows[2][1]}.",
        plot=stacked(axis, middles, columns, _SIDES, "0.00"),
        table=figures_table("Cores in use, on average", ["", "cores"], rows),
        key=[KeyEntry(name, _SIDES[name]) for name in reversed(_SIDES)],
    )


def _rate(at_ms: Floats, counted_ms: Floats) -> Floats:
    """Return cores between readings; 0 where the count began anew."""
    rates: Floats = np.maximum(0.0, np.diff(counted_ms)) / np.maximum(1.0, np.diff(at_ms))
    return rates


def _database_cores(axis: TimeAxis, at_ms: Floats) -> Floats:
    """Return the cores of the server's processes, whose readings are at other times."""
    samples = axis.series("metric_process")
    total = np.zeros(len(at_ms))
    for role in sorted(set(samples["role"]) - {"pgdyno"}):
        of_role = samples["role"] == role
        total += _at(at_ms, {name: samples[name][of_role] for name in _CPU})
    return _rate(at_ms, total)


_CPU = ("at_ms", "cpu_user_ms", "cpu_system_ms")


def _at(at_ms: Floats, samples: Mapping[str, Floats]) -> Floats:
    """Return a role's CPU time at other times than its readings; by steps if it falls: processes
    that end take their time with them."""
    used = np.nan_to_num(floats(samples["cpu_user_ms"]) + floats(samples["cpu_system_ms"]))
    risen = np.concatenate([[0.0], np.cumsum(np.maximum(0.0, np.diff(used)))])
    found: Floats = np.interp(at_ms, floats(samples["at_ms"]), risen)
    return found


def _generator_cores(axis: TimeAxis, at_ms: Floats) -> Floats:
    samples = axis.series("metric_generator")
    used_ms = (floats(samples["cpu_user_us"]) + floats(samples["cpu_system_us"])) / 1000
    if not len(used_ms):
        return np.zeros(len(at_ms) - 1)
    return _rate(at_ms, np.interp(at_ms, floats(samples["at_ms"]), np.cumsum(used_ms)))
