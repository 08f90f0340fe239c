"""Run files that look like real ones, written through the real Recorder, for tests of the report.

The figures follow the story that the tool was made for: a pool of 2 holds 16 clients back, then the
commit flush does. Nothing is random: the same file comes out each time, but for its clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any
from unittest import mock

import result_samples
from msgspec import Struct, field
from record_samples import error_row, group_row

from pgdyno._engine import Histogram
from pgdyno.record import Recorder, RunFile
from pgdyno.record.finding import Finding
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.results import store

if TYPE_CHECKING:
    from pgdyno.results import Result

MS = 1_000_000
NORMAL = NormalDist()

SPEC_TEXT = """\
name = "write-heavy-web"

[workload]
script = "tpcb-like"
scale = 20

[[clients]]
name = "web"
count = 16
pool = { max = 2, max_wait = "30s" }

[load]
ramp = "10s"
hold = "50s"
"""
SPEC: dict[str, Any] = {
    "name": "write-heavy-web",
    "server": {"kind": "embedded", "settings": {}},
    "disk": {"data": "plain", "wal": "plain"},
    "workload": {"script": "tpcb-like", "scale": 20, "variables": {}},
    "clients": [
        {"name": "web", "count": 16, "arrival": "closed", "pool": {"max": 2, "max_wait": "30s"}}
    ],
    "load": {"ramp": "10s", "hold": "50s"},
}
SERVER = {
    "version": "18.6",
    "version_num": 180006,
    "kind": "embedded",
    "cores": 2,
    "is_local": True,
    "capabilities": {"lz4": False, "zstd": False, "jit": False},
    "settings": {"shared_buffers": "128MB", "max_wal_size": "1GB", "synchronous_commit": "on"},
}
HOST = {
    "cores": 2,
    "memory_bytes": 24 * 1024**3,
    "kernel": "Linux 6.1.0",
    "virtualised": True,
    "filesystem": {"data": {"type": "ext4", "mount": "/var"}, "wal": {"type": "ext4"}},
    "same_host_as_server": True,
}
ENGINE = {"version": "0.1.0", "profile": "release", "threads": 1, "protocol": "prepared"}
STATEMENTS = (
    ("BEGIN", 0.03),
    ("UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2", 0.16),
    ("SELECT abalance FROM pgbench_accounts WHERE aid = $1", 0.07),
    ("UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2", 0.11),
    ("UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2", 0.12),
    ("INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (…)", 0.05),
    ("END", 0.42),
)


class Level(Struct):
    """How the server does under one setting."""

    tps: float
    service_ms: float
    pool_wait_ms: float = 0.0
    connections: int = 16
    waits: Mapping[tuple[str, str], float] = field(default_factory=dict)
    cpu: tuple[float, float, float] = (0.4, 0.2, 0.2)
    """user, system, I/O wait, as shares."""


POOLED = Level(
    2480, 0.8, 5.4, 2, {("", ""): 0.75, ("IO", "WALSync"): 0.95, ("LWLock", "WALWrite"): 0.15},
    (0.31, 0.13, 0.18),
)  # fmt: skip
FREE = Level(
    5310, 2.9, 0.0, 16,
    {("", ""): 2.6, ("IO", "WALSync"): 1.1, ("LWLock", "WALWrite"): 9.2, ("Lock", "tuple"): 1.7,
     ("Lock", "transactionid"): 1.1},
    (0.52, 0.24, 0.17),
)  # fmt: skip
ASYNC = Level(
    8700, 1.8, 0.0, 16, {("", ""): 4.9, ("Lock", "tuple"): 3.9, ("Lock", "transactionid"): 2.2},
    (0.66, 0.31, 0.01),
)  # fmt: skip


def histogram(count: int, median_ms: float, sigma: float = 0.6) -> bytes:
    """About ``count`` log-normal latencies, encoded."""
    made = Histogram()
    if count and median_ms:
        buckets = min(40, count)
        for bucket in range(buckets):
            z = NORMAL.inv_cdf((bucket + 0.5) / buckets)
            share = count * (bucket + 1) // buckets - count * bucket // buckets
            if share:
                made.record(int(median_ms * MS * math.exp(sigma * z)), share)
    elif count:
        made.record(0, count)
    return made.encode()


class Writer:
    """Writes seconds of load and samples one after the other."""

    def __init__(self, path: Path, seconds: float, **run: Any) -> None:
        facts: dict[str, Any] = {
            "name": "write-heavy-web", "spec_text": SPEC_TEXT, "spec": SPEC, "server": SERVER,
            "host": HOST, "engine": ENGINE,
        }  # fmt: skip
        self.recorder = Recorder.create(path, **(facts | run))
        self.seconds = seconds
        self.recorder._writer.started_ns -= int(seconds * 1000) * MS
        self.at_ms = 0
        self.left = 0
        self.cpu = {"user": 1e6, "system": 5e5, "iowait": 2e5, "steal": 1e3, "idle": 9e6}
        self.wal_bytes = 10**9
        self.fpi = 10**6
        self.written = 10**10

    @property
    def ns(self) -> int:
        return self.recorder.started_ns + self.at_ms * MS

    def second(self, level: Level, *, clients: int = 16, length_ms: int = 1000, dip: float = 1.0,
               statements: bool = True, errors: bool = False,
               sigma: float = 0.6) -> None:  # fmt: skip
        """One interval of load under ``level``; ``dip`` below 1 is a stall's depth."""
        share = min(1.0, clients / 16 * 1.6) if clients < 16 else 1.0
        wobble = 1 + 0.06 * math.sin(self.at_ms / 1370) + 0.03 * math.sin(self.at_ms / 310)
        done = int(level.tps * share * wobble * dip * length_ms / 1000)
        failed = 3 if errors else 0
        backlog = min(clients, 5)
        intended = done + failed + backlog - self.left
        self.left = backlog
        slow = 1 / max(dip, 0.02)
        wait = level.pool_wait_ms * share
        response = wait + level.service_ms * slow
        row = {
            "group": "web", "script": "tpcb-like", "intended": intended,
            "sent": done + failed, "done": done, "failed": failed, "skipped": 0, "cancelled": 0,
            "backlog": backlog, "retried": 1 if errors else 0, "expected_errors": 0,
            "late": 0,
            "response": histogram(done, response, sigma + 0.1 if dip == 1 else 1.1),
            "wait": histogram(done, wait + 0.02),
            "client_lag": histogram(done, 0.02),
            "pool_wait": histogram(done, wait),
            "connect": histogram(done, 0),
            "service": histogram(done, level.service_ms * slow),
        }  # fmt: skip
        self.recorder.add_interval(
            {
                "started_ns": self.ns,
                "ended_ns": self.ns + length_ms * MS,
                "tag": self.recorder.current_slice,
                "scripts": [row],
                "groups": [
                    group_row(clients=clients, connections=min(level.connections, clients))
                ],
                "statements": self._statements(level, done, slow) if statements else [],
                "errors": self._errors() if errors else [],
                "threads": [
                    {"thread": 0, "cpu_user_us": done * 4, "cpu_system_us": done * 5,
                     "run_queue_delay_us": 900, "passes": done, "loop_stall_us_max": 700,
                     "send_late": histogram(done, 0.05)}
                ],
            }
        )  # fmt: skip
        self._sample(level, done, length_ms, dip)
        self.at_ms += length_ms

    def _statements(self, level: Level, done: int, slow: float) -> list[dict[str, Any]]:
        return [
            {"group": "web", "script": "tpcb-like", "position": place, "statement": text,
             "done": done, "failed": 0, "service": histogram(done, level.service_ms * part * slow)}
            for place, (text, part) in enumerate(STATEMENTS)
        ]  # fmt: skip

    def _errors(self) -> list[dict[str, Any]]:
        at = {"statement": STATEMENTS[1][0], "file": "built-in tpcb-like", "line": 7, "client": 4}
        message = 'duplicate key value violates unique constraint "history_pkey"'
        detail = "Key (tid)=(4) already exists."
        return [
            error_row(**at, sqlstate="40P01", retried=True, message="deadlock detected"),
            error_row(**at, sqlstate="23505", count=3, message=message, detail=detail),
        ]

    def _sample(self, level: Level, done: int, length_ms: int, dip: float) -> None:
        add = self.recorder.add_rows
        user, system, iowait = level.cpu
        parts = {"user": user * dip, "system": system * dip, "iowait": iowait, "steal": 0.01}
        parts["idle"] = max(0.0, 1 - sum(parts.values()))
        for name, part in parts.items():
            self.cpu[name] += part * 2 * length_ms
        host = {f"cpu_{name}_ms": value for name, value in self.cpu.items()}
        host |= {"dirty_bytes": 3e7 + 2e7 * math.sin(self.at_ms / 9000), "writeback_bytes": 2e6}
        add("metric_host", [host], ns=self.ns)
        self.wal_bytes += done * 2600
        self.fpi += done // 9
        add("metric_wal", [{"wal_bytes": self.wal_bytes, "wal_fpi": self.fpi}], ns=self.ns)
        self.written += done * 3000
        disk = {"device": "vda", "holds": "data,wal", "write_bytes": self.written,
                "busy_ms": self.at_ms * 0.7}  # fmt: skip
        add("metric_disk", [disk], ns=self.ns)
        full = int(2e8 + 6e8 * self.at_ms / 1000 / self.seconds)
        space = [
            {"holds": "data", "filesystem": "ext4", "size_bytes": 10**11, "free_bytes": 4 * 10**10},
            {"holds": "wal", "filesystem": "tmpfs", "size_bytes": 10**9,
             "free_bytes": 10**9 - full, "wal_dir_bytes": full},
        ]  # fmt: skip
        add("metric_space", space, ns=self.ns)
        waits = [
            {"ticks": 10, "backend_type": "client backend", "state": "active",
             "wait_event_type": kind, "wait_event": event, "count": round(average * 10 * dip)}
            for (kind, event), average in level.waits.items()
        ]  # fmt: skip
        if dip < 1:
            waits.append({"ticks": 10, "backend_type": "client backend", "state": "active",
                          "wait_event_type": "IO", "wait_event": "DataFileSync",
                          "count": 120})  # fmt: skip
        waits.append({"ticks": 10, "backend_type": "checkpointer", "state": "",
                      "wait_event_type": "Activity", "wait_event": "CheckpointerMain",
                      "count": 10})  # fmt: skip
        add("wait_sample", waits, ns=self.ns)

    def event(self, kind: str, label: str, *, at_ms: int, duration_ms: float | None = None,
              detail: Mapping[str, Any] | None = None) -> None:  # fmt: skip
        self.recorder.add_event(
            kind, label, detail, ns=self.recorder.started_ns + at_ms * MS, duration_ms=duration_ms
        )

    @contextmanager
    def slice(self, kind: str, **columns: Any) -> Iterator[int]:
        slice_id = self.recorder.open_slice(kind, ns=self.ns, **columns)
        yield slice_id
        self.recorder.close_slice(slice_id, ns=self.ns)

    def finish(self, status: str = "done", detail: str = "") -> Path:
        # The end is that of what was written, whatever writing took.
        ended_ms = int(self.seconds * 1000)
        with mock.patch.object(self.recorder, "at_ms", return_value=ended_ms):
            self.recorder.finish(status, detail)
        return self.recorder.path


def finding(signature: str, status: str, sentence: str, **more: Any) -> Finding:
    """A finding as run files have it."""
    members = {"id": signature, "status": status, "sentence": sentence} | more
    return Finding.model_validate(members)


POOL_FINDING = finding(
    "client-pool-limit", "found",
    "clients wait 5.4 of 6.3 ms for one of 2 connections while the server is 38 % idle",
    rank=1, confidence=0.95,
    evidence=[
        {"name": "pool wait, share of response", "value": 0.86, "unit": "share",
         "threshold": "at least 20 %", "window_ms": [10_000, 60_000]},
        {"name": "connections in use, of 2", "value": 1.98, "unit": "", "threshold": None,
         "window_ms": None},
        {"name": "CPU idle", "value": 0.38, "unit": "share", "threshold": "at least 15 %",
         "window_ms": None},
    ],
    false_positives="the application holds connections while it does other work",
    remedies=[{"remedy_id": "pool-size", "change": {"pool_max": {"web": 16}},
               "predicted_ratio": 1.9, "predicted_interval": None,
               "predicted_response_ratio": None, "why": "…", "specific": True}],
    advice="hold a connection for the transaction only",
)  # fmt: skip
FLUSH_FINDING = finding(
    "commit-flush", "found",
    "62 % of the response time is spent waiting for the WAL to reach the disk",
    rank=1, step=1, confidence=0.9,
    evidence=[
        {"name": "WALSync and WALWrite, share of active time", "value": 0.62, "unit": "share",
         "threshold": "at least 30 %", "window_ms": None},
        {"name": "commits per flush", "value": 6.1, "unit": "", "threshold": None,
         "window_ms": None},
    ],
    false_positives="a disk that is busy with something else",
)  # fmt: skip
STALL_FINDING = finding(
    "stall-to-zero", "found",
    "throughput fell below a fifth for 2 s while a checkpoint synced its files",
    rank=2, confidence=0.7, causes=["checkpoint-storm"],
    evidence=[{"name": "DataFileSync during a checkpoint", "value": 0.91, "unit": "share",
               "threshold": "at least 50 %", "window_ms": [41_000, 43_000]}],
)  # fmt: skip
CLEARED = (
    finding("cpu-saturated", "cleared", "the cores were 44 % busy, under 85 %"),
    finding("hot-row", "cleared", "0.4 % of active time was spent waiting for row locks"),
    finding("client-limited", "cleared", "the load generator used 4 % of a core"),
)
SKIPPED = finding("checkpoint-storm", "skipped", "the run is shorter than a checkpoint cycle")


def plain_run(path: Path, **run: Any) -> Path:
    """``pgdyno run``: a ramp, a hold with a stall in it, errors, a vacuum and a checkpoint."""
    writer = Writer(path, 61, command="run", **run)
    with writer.slice("ramp"):
        for second in range(10):
            writer.second(POOLED, clients=max(1, second * 16 // 10))
    with writer.slice("run"):
        for second in range(50):
            dip = 0.05 if second in (31, 32) else 1.0
            writer.second(POOLED, dip=dip, errors=second % 11 == 0)
    writer.event("checkpoint", "checkpoint (timed)", at_ms=30_000, duration_ms=12_500)
    writer.event("vacuum", "autovacuum pgbench_branches", at_ms=20_000, duration_ms=900)
    writer.event("sql", "vacuum freeze pgbench_accounts", at_ms=52_000, duration_ms=4_000)
    why = {"probe": "pg_stat_io", "reason": "PostgreSQL 15 has no such view"}
    writer.event("probe", "no pg_stat_io", at_ms=100, detail=why)
    for row in (POOL_FINDING, STALL_FINDING, *CLEARED, SKIPPED):
        writer.recorder.add_finding(row)
    verdict = {"finding": "client-pool-limit", "sentence": POOL_FINDING.sentence}
    store(writer.recorder, result_samples.run_result(verdict=verdict))
    return writer.finish()


class Tried(Struct):
    """A trial to write."""

    kind: str
    title: str
    a: Level
    b: Level
    change: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)
    pairs: int = 6


def write_trial(writer: Writer, tried: Tried) -> None:
    """Pairs of two-second slices, a before b and b before a in turn."""
    change = {k: {**tried.kept.get(k, {}), **tried.change.get(k, {})}
              for k in {*tried.kept, *tried.change}}  # fmt: skip
    trial_id = writer.recorder.add_trial(kind=tried.kind, title=tried.title, change=change)
    slice_kind = "noise" if tried.kind == "noise" else "trial"
    for pair in range(1, tried.pairs + 1):
        for side in "ab" if pair % 2 else "ba":
            level = tried.a if side == "a" else tried.b
            in_force = tried.kept if side == "a" else change
            writer.at_ms += 300
            if tried.kind != "noise":
                label = tried.title if side == "b" else f"{tried.title}: off"
                writer.event("setting", label, at_ms=writer.at_ms)
            columns = {"trial_id": trial_id, "pair": pair, "side": side, "change": in_force}
            with writer.slice(slice_kind, **columns):
                writer.second(level)
                writer.second(level)
    ratio = tried.b.tps / tried.a.tps
    latency_ms = [level.service_ms + level.pool_wait_ms for level in (tried.a, tried.b)]
    p99_ratio = latency_ms[1] / latency_ms[0]
    columns = {
        "pairs": tried.pairs, "throughput_ratio": ratio, "throughput_ratio_lo": ratio * 0.96,
        "throughput_ratio_hi": ratio * 1.04, "latency_p99_ratio": p99_ratio,
        "latency_p99_ratio_lo": p99_ratio * 0.93, "latency_p99_ratio_hi": p99_ratio * 1.08,
        "baseline_tps": tried.a.tps, "changed_tps": tried.b.tps,
    }  # fmt: skip
    writer.recorder.update_trial(trial_id, **(columns | dict(tried.columns)))


POOL_16 = {"pool_max": {"web": 16}}
PROVED = {"specific": 1, "proof": "proved", "proof_why": "as predicted, within 1.38x to 3.61x"}
TOTAL = {
    "trial": 2, "effect": {"throughput_ratio": 2.14, "ci95": [2.06, 2.23], "pairs": 6},
    "latency_p99": {"ratio": 0.47, "ci95": [0.43, 0.51]}, "compared": "throughput",
    "throughput_tps": {"before": 2480.0, "after": 5310.0},
    "latency_ms_p99": {"before": 29.9, "after": 14.0},
    "failures": result_samples.NONE_FAILED, "postponed": [], "verdict": "better",
    "pairs_needed": None, "sentence": "better: 2.14x [2.06, 2.23] in 6 pairs",
}  # fmt: skip


KILLED = {
    "fault": "kill", "variant": "", "drilled": True, "promised": True, "cuts": 5,
    "happened": 5, "acked": 9000,
    "lost_median": 4, "lost_max": 16, "lost_ms_median": 0.6, "lost_ms_max": 1.5, "lost": 4,
    "corrupt": 0, "refused": 0, "clean": 1, "upper_bound": 0.98, "bound_ms": 600.0,
    "recovery_s_median": 0.2, "recovery_s_max": 0.3, "worse_than_bound": 0,
}  # fmt: skip
POWER_MISSING = {"fault": "power", "variant": "", "drilled": False, "why": "needs root"}


ASYNC_PRICE = {
    "title": "synchronous_commit = off", "remedy": "synchronous-commit-off",
    "durability_class": "D1", "change": {"settings": {"synchronous_commit": "off"}},
    "bound": "up to 600 ms of commits", "losses": [KILLED, POWER_MISSING], "sentence": "",
}  # fmt: skip


def investigation_run(path: Path, *, kept: bool = True, **run: Any) -> Path:
    """``pgdyno investigate``: the pool is kept, a delay rejected, asynchronous commit offered.

    Without ``kept`` the pool is rejected as well, and the result says that nothing was kept.
    """
    writer = Writer(path, 131, command="investigate", **run)
    with writer.slice("baseline"):
        for _ in range(8):
            writer.second(POOLED)
    writer.recorder.add_finding(POOL_FINDING)
    write_trial(writer, Tried("noise", "identical slices", POOLED, POOLED))
    for tried in (
        Tried("remedy", "pool 2 → 16", POOLED, FREE, POOL_16,
              columns={"finding": "client-pool-limit", "remedy": "pool-size", "step": 1,
                       "durability_class": "D0", "predicted_ratio": 1.9, "verdict": "better",
                       "decision": "kept" if kept else "rejected", **(PROVED if kept else {})}),
        Tried("remedy", "commit_delay = 100us", FREE, Level(5362, 2.9, 0.0, 16, FREE.waits),
              {"settings": {"commit_delay": "100"}}, POOL_16,
              {"finding": "commit-flush", "remedy": "commit-delay", "step": 2,
               "durability_class": "D0", "predicted_ratio": 1.1, "verdict": "no difference",
               "decision": "rejected"}),
        Tried("remedy", "synchronous_commit = off", FREE, ASYNC,
              {"settings": {"synchronous_commit": "off"}}, POOL_16,
              {"finding": "commit-flush", "remedy": "synchronous-commit-off", "step": 4,
               "durability_class": "D1", "predicted_ratio": 1.7, "verdict": "better",
               "decision": "offered"}),
        Tried("recheck", "without pool 2 → 16", POOLED, FREE, POOL_16,
              columns={"remedy": "pool-size", "step": 3, "verdict": "better",
                       "decision": "still earns"},
              pairs=3),
    ):  # fmt: skip
        write_trial(writer, tried)
    writer.event("checkpoint", "checkpoint (requested)", at_ms=70_000, duration_ms=9_000)
    for row in (FLUSH_FINDING, *CLEARED, SKIPPED):
        writer.recorder.add_finding(row.model_copy(update={"step": 1}))
    limit = {"finding": "commit-flush", "sentence": FLUSH_FINDING.sentence}
    result = result_samples.investigate_result(
        baseline_tps=2480.0, final_tps=5310.0 if kept else 2480.0, baseline_latency_ms_p99=29.9,
        final_latency_ms_p99=14.0 if kept else 29.9, kept=POOL_16 if kept else {},
        total=TOTAL if kept else None,
        prices=[ASYNC_PRICE],
        noise_floor={
            "of": "throughput", "ci95": [0.969, 1.031], "pairs": 6, "six_pairs_show": 0.045,
        }, matters=0.03, next_limit=limit,
        verdict={
            "finding": "client-pool-limit",
            "sentence": "pool 2 → 16 gives 2.14x; next limit: 62 % of the server's time is"
            " spent waiting for the WAL to reach the disk",
        },
    )  # fmt: skip
    store(writer.recorder, result)
    return writer.finish()


def comparison_run(path: Path, **run: Any) -> Path:
    """``pgdyno compare --set synchronous_commit=off``."""
    writer = Writer(path, 60, command="compare", spec_text="", **run)
    write_trial(writer, Tried("noise", "identical slices", FREE, FREE))
    write_trial(
        writer,
        Tried("compare", "synchronous_commit = off", FREE, ASYNC,
              {"settings": {"synchronous_commit": "off"}},
              columns={"verdict": "better",
                       "sentence": "better: 1.64x the throughput, far beyond the noise"}),
    )  # fmt: skip
    store(writer.recorder, result_samples.compare_result(decision="better"))
    return writer.finish()


def long_run(path: Path, seconds: int = 7200) -> Path:
    """Hours at a second each, without statements or errors."""
    writer = Writer(path, seconds, command="run")
    with writer.slice("run"):
        for second in range(seconds):
            writer.second(FREE, dip=0.2 if second % 300 == 299 else 1.0, statements=False)
            if second % 300 == 270:
                writer.event("checkpoint", "checkpoint (timed)", at_ms=writer.at_ms,
                             duration_ms=30_000)  # fmt: skip
    return writer.finish()


def empty_run(path: Path, status: str = "failed", **run: Any) -> Path:
    """A run that broke off before any load."""
    writer = Writer(path, 1, command="run", **run)
    return writer.finish(status, "the server went away")


def run_of_slice(
    path: Path, result: Result | None, command: str, kind: str, change: dict[str, Any]
) -> RunFile:
    """A run file with a slice of two seconds, and the result of the command."""
    writer = Writer(path, 4, command=command)
    slice_id = writer.recorder.open_slice(kind, change=change, ns=writer.ns)
    for _ in range(2):
        writer.second(Level(tps=900, service_ms=4, pool_wait_ms=0))
    writer.recorder.close_slice(slice_id, ns=writer.ns)
    if result is not None:
        store(writer.recorder, result)
    return RunFile(writer.finish())


def text_of(run: RunFile, width: int = 120) -> str:
    """The report on a terminal."""
    return "\n".join(line.text for line in summary_lines(run, width))
