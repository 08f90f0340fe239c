"""What a spec asks of the machine that pgdyno runs on, checked before anything is started."""

from __future__ import annotations

import os
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.spec import Spec


def check_machine(spec: Spec) -> None:
    """Raise :class:`UsageError` for processors that are not there, or a folder of acks in use."""
    _check_cpus(spec.load.cpus or [])
    if spec.load.acks is not None:
        _check_acks(Path(spec.load.acks).expanduser())


def _check_cpus(cpus: list[int]) -> None:
    if not cpus:
        return
    if not hasattr(os, "sched_getaffinity"):
        raise UsageError("cpus: threads cannot be pinned on this system", code="cpus-unsupported")
    there = sorted(os.sched_getaffinity(0))
    for cpu in cpus:
        if cpu not in there:
            raise UsageError(
                f"cpus: processor {cpu} is not one that pgdyno may use",
                code="no-such-cpu",
                hint=f"it may use {_ranges(there)}",
            )


def _ranges(numbers: list[int]) -> str:
    """``0-3, 8``"""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _check_acks(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"acks: {folder} is not a folder", code="acks-folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(
            f"acks: {folder} is not empty",
            code="acks-folder",
            hint="the clients' records of different runs must not mix; name another folder",
        )
