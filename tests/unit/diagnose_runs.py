"""Run files made by hand from a description of a load, for the tests of the diagnosis.

A :class:`Load` says what happened on average; ``written`` puts it into a real run file, one row a
second as the engine and the probes would, and ``diagnosed`` gives the findings by id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from record_samples import add_second, at, group_row, new_recorder, script_row, thread_row

from pgdyno._engine import Histogram
from pgdyno.diagnose import Diagnosis, Finding, diagnose
from pgdyno.record import LockLink, Recorder, RunFile
from pgdyno.record.fileformat import CORES_ALL, CORES_BUSY

SECONDS = 10
SETTINGS = {
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_compression": "off",
    "commit_delay": "0",
    "commit_siblings": "5",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "5min",
    "checkpoint_completion_target": "0.9",
    "backend_flush_after": "0",
}
UNCOUNTED = {"rows": 0, "wal_bytes": 0, "blocks_read": 0, "temp_blocks": 0}
WEB = "http://127.0.0.1:8080"
CPU = ("", "")
WAL_SYNC = ("IO", "WalSync")
WAL_QUEUE = ("LWLock", "WALWrite")
ROW = ("Lock", "transactionid")
IDLE = ("Client", "ClientRead")


class Load(Struct):
    """What a stretch of a run looked like, per second."""

    clients: int = 4
    pool: int | None = None
    rate: float | None = None
    """The rate of an open loop."""
    when_busy: str = "queue"
    think: str = "0s"
    statements_ms: float | None = None
    """Mean time of the only statement; None leaves statements out."""
    scale: int = 100
    cores: int = 2
    tps: float = 1000.0
    pool_wait_ms: float = 0.0
    lag_ms: float = 0.0
    connect_ms: float = 0.0
    """Mean time of connecting; with one connection for each transaction."""
    service_ms: float = 4.0
    sessions: Mapping[tuple[str, str], float] = field(default_factory=lambda: {CPU: 0.8})
    sessions_of: Mapping[str, Mapping[tuple[str, str], float]] = field(default_factory=dict)
    """Text of a further statement → its sessions."""
    on_server: float | None = None
    """Client sessions on the server; by default, one for each connection."""
    script_ms: Sequence[tuple[str, float]] = ()
    """Each statement of a transaction and its service time, where there are several."""
    script_text: str = ""
    statement: str = "update pgbench_branches set bbalance = bbalance + $1 where bid = $2"
    busy: float | None = 0.4
    """Part of the host's cores at work; None leaves the host out."""
    queued: float | None = None
    """Processes that the kernel counts as runnable; None leaves the count out."""
    ready: float | None = None
    """Client sessions without a core by the kernel's clock; None leaves the clock out."""
    steal: float = 0.0
    """Part of the host's cores that the hypervisor takes, of those not at work."""
    quota: Mapping[str, float] | None = None
    """Counters of metric_control_group per second."""
    system: float = 0.4
    server: float = 0.8
    """Part of what is busy that is the server's."""
    programs: Mapping[tuple[str, str], float] | None = None
    """(whose, program) → cores; None leaves programs out."""
    host_facts: Mapping[str, Any] = field(default_factory=dict)
    generator_busy: float = 0.1
    generator_queued: float = 0.0
    late_ms: float = 0.1
    wal: Mapping[str, float] | None = None
    """Counters of metric_wal per second."""
    settings: Mapping[str, str] = field(default_factory=dict)
    server_facts: Mapping[str, Any] = field(default_factory=dict)
    change: Mapping[str, Any] = field(default_factory=dict)
    pooler: Mapping[str, Any] = field(default_factory=dict)
    """The table pooler of the spec."""
    front: Mapping[str, Any] | None = None
    """The table front of the spec, whose clients send requests."""
    http: Mapping[str, Any] | None = None
    tps_by_second: Sequence[float] | None = None
    queues: Sequence[Mapping[str, Any]] = ()
    """Rows of lock_queue; the statements of ``blocker`` and ``waits_with`` as texts, ``links`` as
    keywords of the links from the blocker on."""
    tables: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    standbys: Sequence[Mapping[str, Any]] = ()
    """Rows of metric_replication, the same every second."""
    statements: Mapping[str, float] = field(default_factory=dict)
    """Text of a script's statement → executions per second."""
    counted: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Shape of a statement → what pg_stat_statements counts of it per second."""
    errors: Sequence[Mapping[str, Any]] = ()
    """Errors of each second, as the engine reports them."""
    silence_ms: Sequence[float] = ()
    """Time without a byte of each connection that is closed in a second."""
    protocol: str = "prepared"
    checkpoint_s: tuple[float, float] | None = None
    """Start and duration of a checkpoint."""
    counters: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Table → rows of what is counted per second; texts are keys."""
    space: Sequence[Mapping[str, Any]] = ()
    """Rows of metric_space at the start; ``fills``, ``wal_fills`` and ``log_fills`` are bytes per
    second."""
    rows: Mapping[str, Callable[[int], Sequence[Mapping[str, Any]]]] = field(default_factory=dict)
    """Table of the run file → its rows so many seconds into the run."""
    by_second: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Second → what is otherwise then: ``sessions``, ``queues``, the ``checkpointer``'s wait, a
    table under ``vacuum``, columns of ``host``, ``held_us`` for which tasks waited for I/O."""


def found_in_seconds(
    tmp_path: Path,
    clients: Mapping[str, int],
    seconds: Sequence[tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]],
) -> dict[str, Finding]:
    """Return findings by ID on client groups, of so many clients each, of which the load engine
    counted these rows of scripts and of groups in each second."""
    path = tmp_path / "run.db"
    groups = [{"name": name, "count": count, "pool": None} for name, count in clients.items()]
    recorder = new_recorder(path, spec={"name": "sample", "clients": groups})
    slice_id = recorder.open_slice("run", change={}, ns=at(recorder, 0))
    for second, (of_scripts, of_groups) in enumerate(seconds):
        add_second(recorder, second, of_scripts, groups=of_groups)
    recorder.close_slice(slice_id, ns=at(recorder, len(seconds)))
    recorder.finish("done")
    with RunFile(path) as run:
        return {each.id: each for each in diagnose(run, [slice_id]).findings}


def diagnosed(tmp_path: Path, load: Load, **given: Any) -> dict[str, Finding]:
    """Return findings on ``load`` by ID."""
    return {finding.id: finding for finding in ranked(tmp_path, load, **given)}


def ranked(tmp_path: Path, load: Load, **given: Any) -> list[Finding]:
    """Return findings on ``load`` in their order."""
    with written(tmp_path, load) as run:
        return diagnose(run, [part.id for part in run.slices()], **given).findings


def concluded(tmp_path: Path, load: Load) -> Diagnosis:
    """Return the whole diagnosis of ``load``."""
    with written(tmp_path, load) as run:
        return diagnose(run, [part.id for part in run.slices()])


def written(tmp_path: Path, load: Load) -> RunFile:
    """A finished run file of ``load``."""
    path = tmp_path / f"run-{len(list(tmp_path.iterdir()))}.db"
    pool = None if load.pool is None else {"max": load.pool, "max_wait": "30s"}
    recorder = new_recorder(
        path,
        spec={
            "name": "sample",
            "clients": [
                {
                    "name": "web",
                    "count": load.clients,
                    "pool": pool,
                    "arrival": {"rate": load.rate, "when_busy": load.when_busy}
                    if load.rate
                    else "closed",
                    "think": load.think,
                }
            ],
            "workload": {"scale": load.scale, "script": [{"text": load.script_text}]},
            "load": {"protocol": load.protocol},
            "pooler": dict(load.pooler) or {"kind": "none"},
        }
        | ({} if load.front is None else {"front": load.front, "http": {"url": WEB}})
        | ({} if load.http is None else {"http": load.http}),
        server={
            "version_num": 180006,
            "settings": SETTINGS | dict(load.settings),
            "capabilities": {},
        }
        | dict(load.server_facts),
        host={"cores": load.cores, "same_host_as_server": True} | dict(load.host_facts),
    )
    slice_id = recorder.open_slice("run", change=load.change, ns=at(recorder, 0))
    for second in range(SECONDS):
        _add_load(recorder, load, second)
        _add_waits(recorder, load, second)
    for edge in range(SECONDS + 1):
        _add_counters(recorder, load, edge)
    if load.checkpoint_s is not None:
        start_s, lasts_s = load.checkpoint_s
        recorder.add_event(
            "checkpoint", "checkpoint", ns=at(recorder, start_s), duration_ms=1000 * lasts_s
        )
    recorder.close_slice(slice_id, ns=at(recorder, SECONDS))
    recorder.finish("done")
    return RunFile(path)


def _add_load(recorder: Recorder, load: Load, second: int) -> None:
    tps = load.tps if load.tps_by_second is None else load.tps_by_second[second]
    done = round(tps)
    due = done if load.rate is None else round(load.rate)
    wait_ms = load.pool_wait_ms + load.connect_ms + load.lag_ms
    skips = load.when_busy == "skip"
    row = script_row(
        intended=due,
        skipped=due - done if skips else 0,
        backlog=0 if skips else (due - done) * (second + 1),
        sent=done,
        done=done,
        response=_times(wait_ms + load.service_ms, done),
        wait=_times(wait_ms, done),
        client_lag=_times(load.lag_ms, done),
        pool_wait=_times(load.pool_wait_ms, done),
        connect=_times(load.connect_ms, done),
        service=_times(load.service_ms, done),
    )
    thread = thread_row(
        cpu_user_us=round(load.generator_busy * 1e6),
        run_queue_delay_us=round(load.generator_queued * 1e6),
        send_late=_times(load.late_ms, done),
    )
    group = group_row(clients=load.clients, connections=load.pool or load.clients)
    if load.connect_ms:
        group |= {"connects": done, "auth": _times(load.connect_ms, done)}
    if load.silence_ms:
        group |= {"silence": _times_of(load.silence_ms)}
    add_second(
        recorder,
        second,
        [row],
        groups=[group],
        threads=[thread],
        statements=_statements(load, done),
        errors=list(load.errors),
    )


def _statements(load: Load, done: int) -> list[dict[str, Any]]:
    if load.script_ms:
        return [
            {"group": "web", "script": "tpcb-like", "position": position, "statement": text}
            | {"done": done, "failed": 0, "service": _times(service_ms, done)}
            for position, (text, service_ms) in enumerate(load.script_ms)
        ]
    rates = dict(load.statements)
    if load.statements_ms is not None:
        rates[load.statement] = done
    names = {"group": "web", "script": "tpcb-like"}
    times = _times(load.statements_ms or 0.1, done)
    return [
        names
        | {"position": n, "statement": text, "done": round(rate), "failed": 0, "service": times}
        for n, (text, rate) in enumerate(rates.items())
    ]


def _times(ms: float, count: int) -> bytes:
    return _times_of([ms] if count else [], count)


def _times_of(each_ms: Sequence[float], count: int = 1) -> bytes:
    histogram = Histogram()
    for ms in each_ms:
        histogram.record(round(ms * 1e6), count)
    return histogram.encode()


def _add_waits(recorder: Recorder, load: Load, second: int) -> None:
    other = load.by_second.get(second, {})
    seen = {load.statement: other.get("sessions", load.sessions), **load.sessions_of}
    rows: list[dict[str, Any]] = [
        {
            "ticks": 100,
            "backend_type": "client backend",
            "state": "active",
            "wait_event_type": kind,
            "wait_event": event,
            "statement_id": recorder.statement_id(text),
            "count": round(average * 100),
        }
        for text, sessions in seen.items()
        for (kind, event), average in sessions.items()
    ]
    rows.append(_idle_row(load, sum(row["count"] for row in rows)))
    if "checkpointer" in other:
        kind, event = other["checkpointer"]
        wait = {"wait_event_type": kind, "wait_event": event, "count": 90}
        rows.append({"ticks": 100, "backend_type": "checkpointer", "state": ""} | wait)
    recorder.add_rows("wait_sample", rows, ns=at(recorder, second + 0.5))
    counted = [
        {**UNCOUNTED, **row, "statement_id": recorder.statement_id(text), "duration_ms": 1000.0}
        for text, row in load.counted.items()
    ]
    recorder.add_rows("statement_count", counted, ns=at(recorder, second))
    queues = [_queue_row(recorder, load, queue) for queue in other.get("queues", load.queues)]
    recorder.add_rows("lock_queue", queues, ns=at(recorder, second + 0.5))
    if "vacuum" in other:
        row = {"pid": 1, "relation": other["vacuum"], "phase": "scanning heap"}
        recorder.add_rows("metric_vacuum", [row], ns=at(recorder, second + 0.5))


def _queue_row(recorder: Recorder, load: Load, queue: Mapping[str, Any]) -> dict[str, Any]:
    """A row of lock_queue: five looks at a queue of ten behind one row, unless said otherwise."""
    row = {
        "looks": 5,
        "seen": 5,
        "lock_type": "transactionid",
        "mode": "ExclusiveLock",
        "relation": "public.t",
        "blocker_state": "active",
        "waiting": 50,
        "first": 5,
        "places": 5,
        "behind_request": 0,
        "blocker_type": "client backend",
        "blocker_transaction_ms": 5 * 5.0,
        "blocker_transaction_ms_max": 9.0,
        "blocker_state_ms": 5 * 1.0,
        "wait_ms_max": 12.0,
    } | dict(queue)
    blocker = row.pop("blocker", load.statement)
    row["blocker_statement_id"] = recorder.statement_id(blocker) if blocker else None
    waits_with = row.pop("waits_with", "update t set n = ? where id = $1")
    for link in row.pop("links", ()):
        row["link_id"] = recorder.lock_link_id(lock_link(**link), row.get("link_id"))
    return row | {"waiting_statement_id": recorder.statement_id(waits_with)}


def lock_link(**given: Any) -> LockLink:
    """A request for a whole table that waits, unless said otherwise."""
    link = {
        "statement": "alter table t add m int",
        "backend_type": "client backend",
        "lock_type": "relation",
        "mode": "AccessExclusiveLock",
        "relation": "public.t",
        "held_type": None,
        "held_mode": None,
        "held_relation": None,
    }
    return LockLink(**link | given)


def _idle_row(load: Load, working: int) -> dict[str, Any]:
    """Sessions outside a transaction, ``working`` being those that are in one, over 100 ticks."""
    sessions = load.on_server if load.on_server is not None else load.pool or load.clients
    wait = {"wait_event_type": "Client", "wait_event": "ClientRead"}
    idle = max(0, round(100 * sessions) - working)
    return wait | {"ticks": 100, "backend_type": "client backend", "state": "idle", "count": idle}


def _add_counters(recorder: Recorder, load: Load, edge: int) -> None:
    """Cumulative counters as they stand ``edge`` seconds into the run."""
    ns = at(recorder, edge)
    if load.busy is not None:
        recorder.add_rows("metric_host", [_host_row(load, edge)], ns=ns)
        used_ms = load.busy * load.cores * load.server * edge * 1000
        process = {"role": "client backend", "count": load.clients, "cpu_system_ms": 0.0}
        if load.ready is not None:
            process["run_queue_delay_ms"] = load.ready * edge * 1000
        recorder.add_rows("metric_process", [process | {"cpu_user_ms": used_ms}], ns=ns)
    if load.programs is not None:
        machine = float(load.host_facts.get("cores_host", load.cores))
        cores = {CORES_BUSY: machine * (load.busy or 0.0), CORES_ALL: machine}
        used = {("machine", name): each for name, each in cores.items()} | dict(load.programs)
        programs = [
            {"whose": whose, "program": name, "count": 4, "cpu_ms": each * edge * 1000}
            for (whose, name), each in used.items()
        ]
        recorder.add_rows("metric_program", programs, ns=ns)
    if load.wal is not None:
        row = {name: rate * edge for name, rate in load.wal.items()}
        recorder.add_rows("metric_wal", [row], ns=ns)
    if load.quota is not None:
        row = {name: rate * edge for name, rate in load.quota.items()}
        recorder.add_rows("metric_control_group", [row | {"control_group": "/g"}], ns=ns)
    recorder.add_rows("metric_replication", load.standbys, ns=ns)
    for table, rated in load.counters.items():
        recorder.add_rows(table, [_grown(row, edge) for row in rated], ns=ns)
    for disk in load.space:
        recorder.add_rows("metric_space", [_space_row(disk, edge)], ns=ns)
    for relation, rates in load.tables.items():
        row = {name: rate * edge for name, rate in rates.items()}
        recorder.add_rows("metric_table", [row | {"relation": relation}], ns=ns)
    for table, rows in load.rows.items():
        recorder.add_rows(table, [dict(row) for row in rows(edge)], ns=ns)


def _grown(rates: Mapping[str, Any], edge: int) -> dict[str, Any]:
    return {
        name: rate * edge if isinstance(rate, int | float) else rate for name, rate in rates.items()
    }


def _space_row(disk: Mapping[str, Any], edge: int) -> dict[str, Any]:
    row = {name: value for name, value in disk.items() if not name.endswith("fills")}
    row["free_bytes"] -= disk.get("fills", 0) * edge
    if "wal_dir_bytes" in row:
        row["wal_dir_bytes"] += disk.get("wal_fills", 0) * edge
    if "log_bytes" in row:
        row["log_bytes"] += disk.get("log_fills", 0) * edge
    return row


def _host_row(load: Load, edge: int) -> dict[str, float | None]:
    assert load.busy is not None
    all_ms = load.cores * edge * 1000.0
    held_us = sum(load.by_second.get(second, {}).get("held_us", 0) for second in range(edge))
    row: dict[str, float | None] = {
        "cpu_user_ms": all_ms * load.busy * (1 - load.system),
        "cpu_system_ms": all_ms * load.busy * load.system,
        "cpu_iowait_ms": 0.0,
        "cpu_steal_ms": all_ms * load.steal,
        "cpu_idle_ms": all_ms * (1 - load.busy - load.steal),
        "dirty_bytes": 0,
        "writeback_bytes": 0,
        "pressure_io_some_us": held_us,
        "procs_running": load.queued,
    }
    return row | dict(load.by_second.get(edge, {}).get("host", {}))
