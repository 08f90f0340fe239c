"""CPU, memory and writes of the server's processes by role, and of pgdyno itself, from /proc.

The use of a process since the previous sample is added to its role, so a role's figure never falls
when a process ends or changes its role. The use of processes between two samples, or after their
last sample, is found in the postmaster's figures: the kernel adds the use of a child that ended
when the postmaster collects it. That rest has the role 'exited'.

Bytes written are those passed to write calls (wchar). The kernel's count of bytes written to disk
(write_bytes) is not usable: where the page cache uses large folios it counts a whole folio for each
small write, more than ten times too much for WAL.

The time that a process is ready to run and has no core is the scheduler's. A session that was
woken shows its old wait event until it gets a core, so that its samples do not tell.
"""

from __future__ import annotations

import os
import re
import resource
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isnan, nan
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from pgdyno.probe._host import PROC, TICK_MS
from pgdyno.probe._process_table import ProcessSample, read_process, read_small, scheduled_ms
from pgdyno.record.fileformat import CLIENT_BACKEND, EXITED, MetricRow

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
POSTMASTER, OWN = "postmaster", "pgdyno"
WRITTEN = re.compile(rb"^wchar: (\d+)", re.MULTILINE)
LOGGER = re.compile(rb"postgres: (\S+: )?logger\b")
"""The one child of the postmaster that pg_stat_activity never shows."""

JIT_LIBRARY = b"llvmjit"
LOOKED_AT_MAX = 4


class Amount(Struct, frozen=True):
    """Use of a process: CPU time, bytes written, and time in the queue for a core (the last two NaN
    where not readable)."""

    cpu_ms: float = 0.0
    user_ms: float = 0.0
    """In whole ticks, as is ``system_ms``: together less than ``cpu_ms``."""
    system_ms: float = 0.0
    written_bytes: float = 0.0
    queued_ms: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.cpu_ms + other.cpu_ms,
            self.user_ms + other.user_ms,
            self.system_ms + other.system_ms,
            self.written_bytes + other.written_bytes,
            self.queued_ms + other.queued_ms,
        )

    def __sub__(self, other: Amount) -> Amount:
        return Amount(
            self.cpu_ms - other.cpu_ms,
            self.user_ms - other.user_ms,
            self.system_ms - other.system_ms,
            self.written_bytes - other.written_bytes,
            self.queued_ms - other.queued_ms,
        )

    def at_least(self, other: Amount) -> Amount:
        """Return the larger of each figure."""
        return Amount(
            max(self.cpu_ms, other.cpu_ms),
            max(self.user_ms, other.user_ms),
            max(self.system_ms, other.system_ms),
            max(self.written_bytes, other.written_bytes),
            max(self.queued_ms, other.queued_ms),
        )

    def divided(self, usual: Amount) -> Amount:
        """Return the whole CPU time as user and system time, in the ratio of their ticks, or of
        those of ``usual`` where there are none."""
        ticks = self if self.user_ms + self.system_ms > 0 else usual
        in_ticks_ms = ticks.user_ms + ticks.system_ms
        user_ms = self.cpu_ms * (ticks.user_ms / in_ticks_ms if in_ticks_ms > 0 else 0.5)
        return replace(self, user_ms=user_ms, system_ms=self.cpu_ms - user_ms)


class Use(Struct, frozen=True):
    """Use of a process, identified by ``started``."""

    started: int
    amount: Amount


_UNREADABLE = Amount(written_bytes=nan, queued_ms=nan)
"""Of processes that have ended, only the CPU time is known."""


def written_bytes(directory: Path) -> float:
    """Return the bytes passed to write calls by a process or thread; NaN if not readable."""
    try:
        found = WRITTEN.search(read_small(f"{directory}/io"))
    except OSError:
        return nan
    return float(found[1]) if found else nan


def private_bytes(pid: int) -> int:
    """Return the process's private memory in RAM; 0 if it has ended.

    Shared memory is excluded, since shared_buffers would count once for every backend.
    """
    try:
        words = read_small(f"{PROC}/{pid}/statm").split()
    except OSError:
        return 0
    return (int(words[1]) - int(words[2])) * PAGE_BYTES if len(words) > 2 else 0


def own_row() -> MetricRow:
    """Return the metric_process row of pgdyno itself, all threads together."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    # By thread, since the process's count includes its collected children.
    threads = list((PROC / "self" / "task").iterdir())
    written = _sum_of_known(map(written_bytes, threads))
    queued = _sum_of_known(scheduled_ms(thread)[1] for thread in threads)
    user_ms, system_ms = used.ru_utime * 1000, used.ru_stime * 1000
    return _row(
        OWN,
        Amount(user_ms + system_ms, user_ms, system_ms, written, queued),
        1,
        private_bytes(os.getpid()),
    )


def _sum_of_known(counts: Iterable[float]) -> float:
    return sum(count for count in counts if not isnan(count))


class ServerProcesses(Struct):
    """The sum of the figures of one server's processes, over all samples."""

    postmaster_pid: int | None = None
    _roles: dict[str, Amount] = field(default_factory=lambda: {EXITED: _UNREADABLE})
    _divided: dict[str, Amount] = field(default_factory=dict)
    """The same, with all of the CPU time as user and system time."""
    _seen: dict[int, Use] = field(default_factory=dict)
    _collected: Amount | None = None
    _ended: Amount = field(default_factory=Amount)

    def follow(self, postmaster_pid: int) -> None:
        """Continue with this postmaster, and with the present figures of the roles."""
        if postmaster_pid != self.postmaster_pid:
            self.postmaster_pid = postmaster_pid
            self._seen, self._collected, self._ended = {}, None, Amount()

    def sample(
        self, table: Mapping[int, ProcessSample], roles: Mapping[int, str], *, full: bool = False
    ) -> list[MetricRow]:
        """Return rows for metric_process, of all processes that were just read.

        ``roles`` has pg_stat_activity's backend types by pid, and the client backends of others;
        ``full`` adds the part of the load's with the JIT compiler. Empty if the postmaster has
        ended.
        """
        pid = self.postmaster_pid
        if pid is None or pid not in table:
            return []
        postmaster = table[pid]
        found = {
            each: _used(each, process)
            for each, process in table.items()
            if pid in (each, process.parent)
        }
        now = {each: use for each, use in found.items() if use is not None}
        counts: Counter[str] = Counter()
        memory: Counter[str] = Counter()
        clients: list[int] = []
        earlier = self._roles.copy()
        for each, used in now.items():
            role = POSTMASTER if each == pid else _role_of(each, roles)
            before = self._seen.get(each)
            known = before.amount if before and before.started == used.started else Amount()
            self._roles[role] = self._roles.get(role, Amount()) + (used.amount - known)
            counts[role] += 1
            if role == CLIENT_BACKEND:
                clients.append(each)
            memory[role] += private_bytes(each)
        self._account_for_ended(postmaster, now)
        self._seen = now
        for role, amount in self._roles.items():
            rise = amount - earlier.get(role, Amount())
            self._divided[role] = self._divided.get(role, Amount()) + rise.divided(usual=amount)
        rows = [
            _row(role, amount, counts[role], memory[role]) for role, amount in self._divided.items()
        ]
        if full:
            busiest = sorted(clients, key=lambda each: -now[each].amount.cpu_ms)
            of_clients = next((row for row in rows if row["role"] == CLIENT_BACKEND), {})
            of_clients["jit_share"] = _jit_share(busiest)
        return rows

    def _account_for_ended(self, postmaster: ProcessSample, now: Mapping[int, Use]) -> None:
        """Add the use of ended processes beyond their last sample to the role 'exited'."""
        for pid, use in self._seen.items():
            if pid not in now or now[pid].started != use.started:
                self._ended += use.amount
        rest = self._roles[EXITED]
        user_ms, system_ms = postmaster.children_user_ms, postmaster.children_system_ms
        collected = Amount(postmaster.collected_ms, user_ms, system_ms)
        if self._collected is None:
            self._collected = collected - rest
        # Never falls: a child may disappear from the list before it is collected.
        self._roles[EXITED] = rest.at_least(collected - self._collected - self._ended)


def _jit_share(pids: Sequence[int]) -> float | None:
    """Return the part of the first few of these processes that have the JIT compiler loaded; None
    if none can be read. A session loads it with its first compilation."""
    seen = [loaded for pid in pids[:LOOKED_AT_MAX] if (loaded := _has_jit(pid)) is not None]
    return sum(seen) / len(seen) if seen else None


def _has_jit(pid: int) -> bool | None:
    try:
        return JIT_LIBRARY in (PROC / str(pid) / "maps").read_bytes()
    except OSError:
        return None


def _used(pid: int, process: ProcessSample) -> Use | None:
    """Return the CPU time and writes of a process so far; None if it has ended since it was read.

    The kernel adds a collected child's writes to its parent's, but not to those of its thread.
    """
    thread = PROC / f"{pid}/task/{pid}"
    written = written_bytes(thread)
    if (isnan(written) or isnan(process.queued_ms)) and not thread.exists():
        return None  # It says nothing about what can be read.
    in_ticks = process.user_ms, process.system_ms
    return Use(process.started, Amount(process.cpu_ms, *in_ticks, written, process.queued_ms))


def _role_of(pid: int, roles: Mapping[int, str]) -> str:
    return roles.get(pid) or ("logger" if _is_logger(pid) else CLIENT_BACKEND)


def _is_logger(pid: int) -> bool:
    try:
        return LOGGER.match((PROC / str(pid) / "cmdline").read_bytes()) is not None
    except OSError:
        return False


def _row(role: str, used: Amount, count: int, rss_bytes: int) -> MetricRow:
    return {
        "role": role,
        "count": count,
        "cpu_user_ms": used.user_ms,
        "cpu_system_ms": used.system_ms,
        "write_bytes": None if isnan(used.written_bytes) else int(used.written_bytes),
        "rss_bytes": rss_bytes,
        "jit_share": None,
        "run_queue_delay_ms": None if isnan(used.queued_ms) else used.queued_ms,
    }


def find_postmaster(backend_pid: int, started_unix_s: float) -> int | None:
    """Return the postmaster of the backend with this process ID, if both are seen on this host.

    ``started_unix_s`` is when that backend started, by pg_stat_activity: a process on this host
    could have the same ID as a backend on another machine, but hardly start in the same ten
    seconds. A backend's start is recorded after that of its process, on a busy machine by seconds.
    """
    backend = read_process(backend_pid)
    if backend is None or not backend.command.startswith("postgres"):
        return None
    began_unix_s = _boot_unix_s() + backend.started * TICK_MS / 1000
    return backend.parent if abs(began_unix_s - started_unix_s) < 10.0 else None


def _boot_unix_s() -> float:
    found = re.search(r"^btime (\d+)", Path(PROC / "stat").read_text(), re.MULTILINE)
    return float(found[1]) if found else 0.0
