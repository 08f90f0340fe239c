"""The interface of faults; each is a file in ``faults/`` that defines ``FAULT``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.drill._bounds import Bound, of_a_crash
from pgdyno.drill.faults import fault_names
from pgdyno.errors import UsageError
from pgdyno.remedy import Circumstances
from pgdyno.spec import Spec

if TYPE_CHECKING:
    from pgdyno.drill._drill import LoadedServer
    from pgdyno.drill.model import DrillOptions
    from pgdyno.record.cut import Cut


class Fault(Struct, frozen=True):
    """A way to break a server."""

    name: str
    """Name on the command line, such as 'during-recovery'."""
    summary: str
    """Description of the fault in a few words."""
    adapt: Callable[[Spec, DrillOptions], Spec]
    """Function that adds the disks and standbys that the fault needs to the spec."""
    check: Callable[[Spec, DrillOptions], None]
    """Function that raises SetupError or UsageError if the machine or the spec lacks something."""
    cuts: Callable[[LoadedServer], Iterator[Cut]]
    """Generator that makes the cuts one by one; each is recorded as it is yielded."""
    variants: tuple[str, ...] = ()
    """Values of ``--variant``; empty if the fault has no variants."""
    pooled: bool = False
    """True if variants are drawn by seed from one set, so that they are judged together."""
    bound: Callable[[Circumstances], Bound] = of_a_crash
    """Function that returns the loss that PostgreSQL's documentation allows."""
    records_load: bool = False
    """True if its cuts are made from one recorded load."""
    ends_processes: bool = True
    """True if it ends processes of the server; otherwise a killed one is outside interference."""
    managed: bool = False
    """True if a failover manager of its own may run the servers."""
    seconds_min: float = 10.0
    """Approximate duration of a drill with one or two cuts, on two cores; drills that share a time
    budget divide it in this proportion."""
    cuts_usual: int = 5
    """Number of cuts with which an investigation prices a remedy."""


def find_fault(name: str) -> Fault:
    """Return the fault ``name``; raise UsageError if there is none."""
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


def unchanged_spec(spec: Spec, _options: DrillOptions) -> Spec:
    """Return the spec: ``adapt`` of a fault that needs nothing special."""
    return spec


def no_requirements(_spec: Spec, _options: DrillOptions) -> None:
    """Accept every spec and machine: ``check`` of a fault that needs nothing special."""
