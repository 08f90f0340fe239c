"""The governor of a run: what it recorded, and whether the server refused transactions all the
same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgdyno.diagnose.words import duration, figure
from pgdyno.record import RunFile
from pgdyno.record.failures import is_out_of_ids
from pgdyno.record.governing import governed_in
from pgdyno.results.governor import RunGovernor
from pgdyno.spec.age import STOP_AGE


def governor_of(run: RunFile) -> RunGovernor | None:
    """Return what the governor did, and what came of it; None for a run without one."""
    summary = governed_in(run)
    if summary is None:
        return None
    errors = [each for each in run.errors() if is_out_of_ids(each) and not each.retried]
    refused = sum(each.count for each in errors)
    sentence = f"{_what_it_did(summary)}; {_how_old(summary)}; {_refusals(refused)}"
    fields = {**summary, "refused": refused, "sentence": sentence}
    return RunGovernor.model_validate(fields)


def _what_it_did(summary: Mapping[str, Any]) -> str:
    if not summary["on"]:
        return "the governor was off: clients did not keep to it"
    slow_s, paused_s, pauses = summary["slow_s"], summary["paused_s"], summary["pauses"]
    if not (slow_s or paused_s):
        return "the governor let the clients go on"
    said = []
    if slow_s:
        said.append(f"slowed the clients down for {duration(slow_s)}")
    if paused_s:
        times = "once" if pauses == 1 else f"{pauses:,} times"
        said.append(f"paused them {times}, for {duration(paused_s)} in all")
    if summary["unknown_s"]:
        said.append(f"of which the server could not be asked for {duration(summary['unknown_s'])}")
    if summary["vacuumed"]:
        said.append(f"vacuumed {summary['vacuumed']:,} tables meanwhile")
    return f"the governor {', '.join(said)}"


def _how_old(summary: Mapping[str, Any]) -> str:
    age, high = summary["age_max"], summary["marks"]["high"]
    noun = {"transaction IDs": "transaction ID", "multixacts": "multixact"}
    oldest = f"the oldest {noun.get(summary['of'], 'multixact member')} was {age:,} old at most"
    beyond = summary["beyond_high"]
    if age >= STOP_AGE:
        return f"{oldest}, where the server assigns no more"
    if beyond:
        return f"{oldest}, {beyond:,} beyond the high mark of {high:,}"
    return f"{oldest}, below the high mark of {high:,}"


def _refusals(refused: int) -> str:
    if not refused:
        return "the server refused no transaction an ID"
    times = "1 transaction" if refused == 1 else f"{figure(refused)} transactions"
    return f"the server refused {times} an ID"
