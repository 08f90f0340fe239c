"""The load engine's configuration, made from a spec by pure functions.

Keys with their default value are omitted, so that a configuration shows how a load differs. The
application_name of a client group's sessions is what the server tells services apart by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from pgdyno.server import ConnInfo
from pgdyno.spec import Arrival, ClientGroup, Pool, Spec
from pgdyno.spec.http import HttpSpec
from pgdyno.spec.load import LogSpec
from pgdyno.spec.standby import manager_seconds
from pgdyno.workload import Workload

if TYPE_CHECKING:
    from pgdyno.conduct._engine_types import (
        AcksConfig,
        ArrivalConfig,
        ConnectionConfig,
        EngineConfig,
        GroupConfig,
        HttpConfig,
        LogConfig,
        PoolConfig,
        Segments,
        SineConfig,
        StepConfig,
    )

_FLAT_MS = 60_000
"""Length of a segment of constant rate; the last segment of a profile continues."""
_PROMOTION_S = 20
"""Time for Patroni to promote a standby once the lock of the leader has expired."""
LOAD = "pgdyno"
"""Name of the sessions of a load, and of each group the beginning."""
_BYTES_MAX = 63
"""The server cuts names to this length."""


class Acks(Struct, frozen=True):
    """The ack ledger of a load, and the command that its transactions execute for it."""

    directory: Path
    label: int | None = None
    """The load's label in the ack ledger; ``None``: no label."""
    before_commit: Callable[[int], str] | None = None
    """Maps a group's number in the ack ledger to the SQL command that each of its transactions
    executes just before its last COMMIT; the command may use ``:client_id`` and ``:txn``."""


def engine_config(
    spec: Spec,
    conninfo: ConnInfo | None,
    workloads: Mapping[str, Workload],
    variables: Mapping[str, Mapping[str, str]],
    *,
    scheduled: bool,
    acks: Acks | None = None,
    session: str | None = None,
) -> EngineConfig:
    """Return the engine's configuration for a spec; ``scheduled`` includes its ramp or load steps,
    and sessions begin with the statement ``session``.

    ``conninfo`` is None where all clients use a web server.
    ``workloads`` and ``variables`` are by group. ``acks`` takes precedence over the spec's.
    """
    load = spec.load
    special = {
        "reactor": None if load.reactor == "auto" else load.reactor,
        "cpus": load.cpus,
        "nice": load.nice,
        "parameters": None if load.parameters == "text" else load.parameters,
        "acks": _acks(spec, acks),
        "give_up_after_ms": _give_up_after_ms(spec),
        # A load that is only part of a run would overwrite the log of the load before it.
        "log": _log(load.log) if load.log and scheduled else None,
        "verbose_errors": load.verbose_errors or None,
        "exit_on_abort": load.exit_on_abort or None,
        "session": session,
    }
    witnesses = _witnesses(spec, workloads, acks.before_commit) if acks else {}
    groups = []
    for group in spec.clients:
        config = _group(spec, group, workloads[group.name], variables[group.name], scheduled)
        if group.name in witnesses:
            config["witness"] = witnesses[group.name]
        groups.append(config)
    fields = {
        **({} if conninfo is None else {"target": conninfo.engine_target()}),
        "threads": load.threads,
        "connecting_max": load.connecting_max,
        "backoff_ms_min": load.backoff_min_ms,
        "backoff_ms_max": load.backoff_max_ms,
        "seed": load.seed,
        "protocol": load.protocol,
        "max_tries": load.max_tries,
        **_given(special),
        "groups": groups,
    }
    return cast("EngineConfig", fields)


def _give_up_after_ms(spec: Spec) -> int | None:
    """Return the time without a server after which a load ends, if it is longer than usual: what
    Patroni needs to replace a primary."""
    if not spec.standby.managed:
        return None
    return 2 * (manager_seconds(spec.standby.manager_settings, "ttl") + _PROMOTION_S) * 1000


def _log(log: LogSpec) -> LogConfig:
    every_ms = log.aggregate_interval_ms
    special = {
        "sampling_rate": log.sampling_rate,
        "aggregate_s": every_ms // 1000 if every_ms else None,
        "failures_detailed": log.failures_detailed or None,
    }
    return cast("LogConfig", {"prefix": log.prefix, **_given(special)})


def _acks(spec: Spec, acks: Acks | None) -> AcksConfig | None:
    if acks is not None:
        directory: AcksConfig = {"directory": str(acks.directory)}
        return directory if acks.label is None else {**directory, "label": acks.label}
    return {"directory": str(Path(spec.load.acks).expanduser())} if spec.load.acks else None


def _witnesses(
    spec: Spec, workloads: Mapping[str, Workload], before_commit: Callable[[int], str] | None
) -> dict[str, str]:
    """Return by group the command added to its transactions, the engine's ``witness``.

    Groups are numbered as in the ack ledger, which includes only groups with scripts.
    """
    if before_commit is None:
        return {}
    numbered = [group for group in spec.clients if workloads[group.name].scripts]
    return {
        group.name: before_commit(number) for number, group in enumerate(numbered) if not group.idle
    }


def _group(
    spec: Spec,
    group: ClientGroup,
    workload: Workload,
    variables: Mapping[str, str],
    scheduled: bool,
) -> GroupConfig:
    special = {
        "http": spec.http and _http(spec.http),
        "arrival": group.open_loop and arrival_config(spec, group.open_loop, scheduled=scheduled),
        "latency_limit_us": group.latency_limit_us,
        "pool": group.pool and _pool(group.pool),
        "instances": group.instances if group.instances > 1 else None,
        "application_name": application_name(spec, group)
        if len(spec.clients) > 1 and spec.http is None
        else None,
        "connection": _connection(group),
        "idle": group.idle or None,
        "hold_open_ms": group.hold_open_ms or None,
        "transactions": None if group.idle else spec.load.transactions,
    }
    fields = {
        "name": group.name,
        "clients": group.count,
        "schedule": _clients_over_time(spec, group) if scheduled else [],
        "think_ms": group.think_ms,
        "variables": dict(variables),
        "scripts": [
            {"name": s.name, "text": s.text, "file": s.file, "weight": s.weight}
            for s in workload.scripts
        ],
        **_given(special),
    }
    return cast("GroupConfig", fields)


def _http(http: HttpSpec) -> HttpConfig:
    url = http.parsed
    config: HttpConfig = {
        "host": url.host,
        "port": url.port,
        "tls": url.secure,
        "timeout_ms": http.timeout_ms,
        "cookies": http.cookies,
        "verify": http.verify,
    }
    if http.ca_file is not None:
        config["ca_file"] = str(Path(http.ca_file).expanduser())
    return config


def _clients_over_time(spec: Spec, group: ClientGroup) -> list[StepConfig]:
    """Return a closed loop's clients over time: a ramp to all of them, or the spec's load steps.

    An open loop has all its clients from the start; its rate ramps instead.
    """
    if group.open_loop:
        return []
    if spec.load.ramp_ms:
        return [{"at_ms": 0, "clients": group.count, "ramp_ms": spec.load.ramp_ms}]
    return [
        {"at_ms": step.at_ms, "clients": max(1, round(group.count * step.share)), "ramp_ms": 0}
        for step in spec.load.steps
    ]


def _pool(pool: Pool) -> PoolConfig:
    validation = pool.validation
    special = {
        "min_idle": pool.min_idle or None,
        "max_lifetime_ms": pool.max_lifetime_ms,
        "idle_timeout_ms": pool.idle_timeout_ms,
        "validation": validation
        and {"query": validation.query, "after_idle_ms": validation.after_idle_ms},
    }
    fields = {"max": pool.max, "max_wait_ms": pool.max_wait_ms, **_given(special)}
    return cast("PoolConfig", fields)


def _connection(group: ClientGroup) -> ConnectionConfig | None:
    if group.reconnect_every is None and group.slow_start:
        return None
    return {"reconnect_every": group.reconnect_every, "slow_start": group.slow_start}


def arrival_config(spec: Spec, arrival: Arrival, *, scheduled: bool) -> ArrivalConfig:
    """Return the engine's configuration of an open loop, with its rate as a profile over time."""
    config: ArrivalConfig = {
        "process": arrival.process,
        "profile": _profile(spec, arrival, scheduled),
        "when_busy": arrival.when_busy,
    }
    if arrival.queue_max is not None:
        config["queue_max"] = arrival.queue_max
    return config


def _profile(spec: Spec, arrival: Arrival, scheduled: bool) -> Segments | SineConfig:
    if arrival.sine is not None:
        return {
            "kind": "sine",
            "mean": arrival.rate,
            "amplitude": arrival.sine.amplitude,
            "period_ms": arrival.sine.period_ms,
        }
    if arrival.burst is not None:
        burst = arrival.burst
        quiet_ms = burst.every_ms - burst.length_ms
        pieces = [(quiet_ms, arrival.rate, arrival.rate), (burst.length_ms, burst.rate, burst.rate)]
        return _segments(pieces, repeat=True)
    if arrival.day is not None:
        return _segments(_day(arrival), repeat=True)
    return _segments(_course(spec, arrival, scheduled), repeat=False)


def _day(arrival: Arrival) -> list[tuple[int, float, float]]:
    """Return a piece for each hour, from its rate to the next one's; lengths add up exactly."""
    assert arrival.day is not None
    rates = [arrival.rate * factor for factor in arrival.day.factors]
    hours, period_ms = len(rates), arrival.day.period_ms
    edges = [period_ms * hour // hours for hour in range(hours + 1)]
    return [
        (edges[hour + 1] - edges[hour], rates[hour], rates[(hour + 1) % hours])
        for hour in range(hours)
    ]


def _course(spec: Spec, arrival: Arrival, scheduled: bool) -> list[tuple[int, float, float]]:
    """Return a constant rate, or one in steps: the arrival's own or those of the whole load."""
    if scheduled and spec.load.steps:
        ends = [step.at_ms for step in spec.load.steps[1:]] + [None]
        return [
            (_FLAT_MS if end is None else end - step.at_ms, arrival.rate * step.share,
             arrival.rate * step.share)
            for step, end in zip(spec.load.steps, ends, strict=True)
        ]  # fmt: skip
    pieces, now_ms, rate = [], 0, arrival.rate
    if scheduled and spec.load.ramp_ms:
        pieces.append((spec.load.ramp_ms, 0.0, rate))
        now_ms = spec.load.ramp_ms
    for step in arrival.steps:
        pieces.append((step.at_ms - now_ms, rate, rate))
        pieces.append((step.ramp_ms, rate, step.rate))
        now_ms, rate = step.end_ms, step.rate
    return [*pieces, (_FLAT_MS, rate, rate)]


def _segments(pieces: list[tuple[int, float, float]], *, repeat: bool) -> Segments:
    return {
        "kind": "segments",
        "segments": [
            {"duration_ms": duration_ms, "rate_from": rate_from, "rate_to": rate_to}
            for duration_ms, rate_from, rate_to in pieces
            if duration_ms > 0
        ],
        "repeat": repeat,
    }


def _given(fields: Mapping[str, object]) -> dict[str, object]:
    """Return ``fields`` without keys that are None."""
    return {key: value for key, value in fields.items() if value is not None}


def application_name(spec: Spec, group: ClientGroup) -> str:
    """Return ``pgdyno/GROUP``. A name that the server would change, because it is too long or not
    in ASCII, becomes ``pgdyno//NUMBER NAME``, so that two groups never have the same one."""
    name = f"{LOAD}/{group.name}"
    if len(name) <= _BYTES_MAX and _is_plain(group.name) and not group.name.startswith("/"):
        return name
    number = [each.name for each in spec.clients].index(group.name) + 1
    cleaned = "".join(each if _is_plain(each) else "?" for each in group.name)
    return f"{LOAD}//{number} {cleaned}"[:_BYTES_MAX]


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()
