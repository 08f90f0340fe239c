"""The samplers of the machine: host, disks and their space, the server's processes, pgdyno's own.

All except the last apply only to the server's machine.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from pgdyno.probe._control_groups import Throttling
from pgdyno.probe._disks import holders, sample_disks
from pgdyno.probe._host import pressure, sample_host
from pgdyno.probe._process_table import ProcessTable
from pgdyno.probe._processes import ServerProcesses, own_row
from pgdyno.probe._programs import Programs
from pgdyno.probe.gaps import MissingProbes
from pgdyno.probe.space import SpaceSampler
from pgdyno.record import Recorder

ELSEWHERE = "the server is on another machine"
PROCESS_SHARE_MAX = 0.01
"""Share of one core for reading each process; with thousands they are read less often."""


class HostSampler:
    """Write metric_host, metric_disk, metric_space, metric_process, metric_program and
    metric_control_group."""

    def __init__(
        self,
        recorder: Recorder,
        missing: MissingProbes,
        *,
        local: bool,
        postmaster_pid: int | None,
        data_dir: Path | None,
        space: SpaceSampler | None,
    ) -> None:
        self._recorder = recorder
        self._data_dir = data_dir
        self._space = space
        self._missing = missing
        self._local = local
        self._table = ProcessTable()
        self._processes = ServerProcesses()
        self._programs = Programs()
        self._throttling = Throttling()
        self._processes_due_ns = 0
        self._slice_id: int | None = None
        self._holds: dict[str, str] = {}
        if postmaster_pid is not None:
            self._follow(postmaster_pid)
        if local:
            self._find_disks()
            if space is None:
                missing.add("space", "the data directory is not known")
        else:
            for probe in ("host", "disk", "space", "process"):
                missing.add(probe, ELSEWHERE)

    @property
    def needs_roles(self) -> bool:
        """True if the next sample needs the backend types of the server's processes."""
        return "process" not in self._missing

    def follow(self, postmaster_pid: int | None) -> None:
        """Sample this postmaster from now on; None if it is not seen here."""
        if not self._local:
            return
        self._holds = holders(self._data_dir)  # Between two starts the WAL may have moved.
        if postmaster_pid is not None:
            self._follow(postmaster_pid)
        elif self._processes.postmaster_pid is None:
            self._missing.add("process", "the server's processes cannot be seen from here")

    def _follow(self, postmaster_pid: int) -> None:
        self._processes.follow(postmaster_pid)
        self._throttling.follow(postmaster_pid)

    def sample(self, roles: Mapping[int, str] | None, *, full: bool) -> None:
        """Take one sample; ``roles``, by pid, is None while the server is away."""
        if "host" not in self._missing:
            try:
                self._recorder.add_rows("metric_host", [sample_host()])
            except (OSError, KeyError, ValueError) as error:
                self._missing.add("host", f"/proc cannot be read: {error}")
        self._recorder.add_rows("metric_control_group", self._throttling.sample())
        if "disk" not in self._missing:
            try:
                self._recorder.add_rows("metric_disk", sample_disks(self._holds))
            except (OSError, IndexError, ValueError) as error:
                self._missing.add("disk", f"/proc/diskstats cannot be read: {error}")
        if self._space is not None and "space" not in self._missing:
            try:
                self._space.sample()
            except OSError as error:
                self._missing.add("space", f"the data directory is not accessible: {error}")
        self._sample_processes(roles, full=full)

    def _sample_processes(self, roles: Mapping[int, str] | None, *, full: bool) -> None:
        rows = [own_row()]
        due = full or time.monotonic_ns() >= self._processes_due_ns
        if roles is not None and due and self.needs_roles:
            began_ns = time.thread_time_ns()
            postmaster_pid = self._processes.postmaster_pid
            reading = self._table.read(postmaster_pid)
            rows += self._processes.sample(reading.processes, roles, full=full)
            slice_id, self._slice_id = self._slice_id, self._recorder.current_slice
            begins = slice_id != self._slice_id
            programs = self._programs.sample(reading, postmaster_pid, begins=begins)
            self._recorder.add_rows("metric_program", programs)
            cost_ns = time.thread_time_ns() - began_ns
            self._processes_due_ns = time.monotonic_ns() + int(cost_ns / PROCESS_SHARE_MAX)
        self._recorder.add_rows("metric_process", rows)

    def _find_disks(self) -> None:
        """Find the disks of data and WAL, and whether the kernel has pressure figures."""
        self._holds = holders(self._data_dir)
        if not self._holds:
            why = (
                "is not known" if self._data_dir is None else "does not exist or is not accessible"
            )
            self._missing.add("disk of the data", f"the block device of the data directory {why}")
        try:
            kept = any(value is not None for value in pressure().values())
        except OSError:
            kept = False
        if not kept:
            self._missing.add("pressure", "this kernel has no figures of pressure")
