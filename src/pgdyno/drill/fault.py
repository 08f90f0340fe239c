"""What a fault is to the drill room; each is a file under ``faults/`` that defines ``FAULT``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgdyno.drill._bounds import Bound, of_a_crash
from pgdyno.drill.faults import fault_names
from pgdyno.errors import UsageError
from pgdyno.remedy import Circumstances
from pgdyno.spec import Spec

if TYPE_CHECKING:
    from pgdyno.drill._drill import Drill
    from pgdyno.drill.model import Cut, DrillOptions


@dataclass(frozen=True)
class Fault:
    """One way to break a server."""

    name: str
    """As on the command line: 'during-recovery'."""
    summary: str
    """What is broken, in a few words after "this drill"."""
    adapt: Callable[[Spec, DrillOptions], Spec]
    """The spec with the disks and standbys that the fault needs."""
    check: Callable[[Spec, DrillOptions], None]
    """Raises SetupError or UsageError when the machine or the spec lacks something."""
    cuts: Callable[[Drill], Iterator[Cut]]
    """Carries the cuts out, one after the other, each recorded as it is yielded."""
    variants: tuple[str, ...] = ()
    """What ``--variant`` may name; empty where there is one way only."""
    pooled: bool = False
    """Whether the variants are drawn by seed out of one lot, so that they are judged together."""
    bound: Callable[[Circumstances], Bound] = of_a_crash
    """What PostgreSQL's documentation allows it to take."""
    ends_processes: bool = True
    """Whether processes of the server end by it; otherwise who is killed was killed by another."""
    seconds_min: float = 10.0
    """What a drill with a cut or two takes, about, on two cores; drills that share a time share it
    in this proportion."""
    cuts_usual: int = 5
    """As many as an investigation has of it to price a remedy."""


def find_fault(name: str) -> Fault:
    """The fault called ``name``; UsageError when there is none."""
    names = fault_names()
    if name not in names:
        raise UsageError(
            f'there is no fault "{name}"',
            code="unknown-fault",
            hint=f"faults are {', '.join(names)}",
        )
    module = importlib.import_module(f"pgdyno.drill.faults.{name.replace('-', '_')}")
    fault: Fault = module.FAULT
    return fault


def as_it_is(spec: Spec, _options: DrillOptions) -> Spec:
    """``adapt`` of a fault that needs nothing special."""
    return spec


def nothing_to_check(_spec: Spec, _options: DrillOptions) -> None:
    """``check`` of a fault that any machine can have."""
