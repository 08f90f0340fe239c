"""Changes of settings, of the protocol and by SQL that may make the load's statements faster, by
their plans and by the settings in force.

Whether one does is measured afterwards; a candidate is no finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pgdyno.plans.tree import IN_MEMORY, Plan
from pgdyno.plans.unusual import resets
from pgdyno.plans.wanted_indexes import INDEXES_MAX
from pgdyno.record import UnusableIndex, UnusualSetting
from pgdyno.spec.change import Change
from pgdyno.spec.server_settings import is_of_jit

WORK_MEM_MB_MAX = 1024


def of_spilling(plans: Iterable[Plan], *, is_default: bool) -> list[Change]:
    """Return a work_mem that holds the most that a node of a plan wrote to disk, if one did; with
    ``is_default``, more than the built-in value."""
    spilled_kb = max((n.spilled_kb for plan in plans for n in plan.nodes()), default=0.0)
    wanted_mb = 8 if is_default else 1
    while wanted_mb * 1024 < IN_MEMORY * spilled_kb:
        wanted_mb *= 2
    if not spilled_kb or wanted_mb > WORK_MEM_MB_MAX:
        return []
    return [Change(settings={"work_mem": f"{wanted_mb}MB"})]


def of_workers(plans: Iterable[Plan]) -> list[Change]:
    """Return execution without parallel workers, if a plan started some."""
    if not any(node.workers_launched for plan in plans for node in plan.nodes()):
        return []
    return [Change(settings={"max_parallel_workers_per_gather": "0"})]


def of_unusable(unusable: Iterable[UnusableIndex]) -> list[Change]:
    """Return what would let statements use an index, each a change of its own."""
    made = dict.fromkeys(each.make for each in unusable if each.make)
    return [Change(sql={"make": (each,)}) for each in [*made][:INDEXES_MAX]]


def of_protocol(protocol: str) -> list[Change]:
    """Return the change to prepared statements, unless the load has them."""
    return [] if protocol == "prepared" else [Change(spec={"load.protocol": "prepared"})]


def of_plan_cache(
    unusual: Mapping[str, UnusualSetting], *, protocol: str, has_parameters: bool, is_generic: bool
) -> list[Change]:
    """Return the other kind of plan for prepared statements with parameters: for the values of each
    execution where it is for any values, and the reverse."""
    if protocol != "prepared" or not has_parameters or "plan_cache_mode" in unusual:
        return []
    mode = "force_custom_plan" if is_generic else "force_generic_plan"
    return [Change(settings={"plan_cache_mode": mode})]


def of_compiling(unusual: Mapping[str, UnusualSetting], plans: Iterable[Plan]) -> list[Change]:
    """Return JIT turned off, if a plan is compiled with the settings at their defaults."""
    if any(map(is_of_jit, unusual)) or not any(p.is_compiled for p in plans):
        return []
    return [Change(settings={"jit": "off"})]


def of_resets(
    unusual: Iterable[UnusualSetting], plans: Iterable[Plan]
) -> tuple[list[Change], list[Change]]:
    """Return the resets of settings, each alone: first those of JIT, if a plan is compiled and so
    shows its cost, and then the others."""
    is_compiled = any(plan.is_compiled for plan in plans)
    shown: list[Change] = []
    others: list[Change] = []
    for each in unusual:
        (shown if is_compiled and is_of_jit(each.name) else others).append(resets([each]))
    return shown, others
