"""Checks of a spec against the machine that pgdyno runs on, before anything is started."""

from __future__ import annotations

import os
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.spec import Spec


def check_machine(spec: Spec) -> None:
    """Raise :class:`UsageError` for unusable CPUs or a directory of acks that is not empty."""
    _check_cpus(spec.load.cpus or [])
    if spec.load.acks is not None:
        _check_acks(Path(spec.load.acks).expanduser())


def _check_cpus(cpus: list[int]) -> None:
    if not cpus:
        return
    if not hasattr(os, "sched_getaffinity"):
        raise UsageError("cpus: threads cannot be pinned on this system", code="cpus-unsupported")
    usable = sorted(os.sched_getaffinity(0))
    for cpu in cpus:
        if cpu not in usable:
            raise UsageError(
                f"cpus: pgdyno may not use CPU {cpu}",
                code="no-such-cpu",
                hint=f"it may use {_ranges(usable)}",
            )


def _ranges(numbers: list[int]) -> str:
    """Format CPU numbers, as ``0-3, 8``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _check_acks(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"acks: {directory} is not a directory", code="acks-directory")
    if directory.is_dir() and any(directory.iterdir()):
        raise UsageError(
            f"acks: {directory} is not empty",
            code="acks-directory",
            hint="the ack ledgers of different runs must not be mixed; name another directory",
        )
