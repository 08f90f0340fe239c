"""The fields of a spec for the load of a capture, with its setup and scripts."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.clone._scripts import script_of
from pgdyno.clone.capture_file import Application, Capture
from pgdyno.clone.keys import Keys
from pgdyno.clone.queues import own_rates, takings
from pgdyno.clone.schema import setup_of
from pgdyno.json_types import Fields

_BUSY_MIN = 0.3
_IDLE_S_MAX = 0.005
"""Share of the sessions within a transaction, or time between two of a session, from which on
clients do not wait between two: those of a closed loop are idle while the client reads an answer
and sends the next statement."""
_WEIGHT = 1000
_RATE_MIN = 0.001


class Clone(Struct, frozen=True):
    """A spec with its files."""

    fields: Fields
    setup: str
    """Name of the file with the setup."""
    setup_text: str
    scripts: dict[str, str]
    """File name → text."""


def clone_of(capture: Capture, name: str, scale: float = 1.0, *, one_group: bool = False) -> Clone:
    """Return the load of a capture, with rows ``scale`` times as many as the source's; in
    ``one_group`` of clients, or in one for each application."""
    applications = () if one_group else capture.applications
    keys = Keys(capture.tables, scale, one_group=len(applications) < 2)
    files = [f"{name}-{number}.sql" for number in range(1, len(capture.transactions) + 1)]
    taking = takings(capture)
    after = {each.transaction: each.part for each in taking.values()}

    def group(name: str, of: Application, commits_per_s: float) -> Fields:
        own = replace(of, per_s=tuple(own_rates(of.per_s, taking)))
        return _group(name, files, own, commits_per_s)

    setup = f"{name}-setup.sql"
    fields: Fields = {
        "name": name,
        "workload": {"setup": setup, "superuser": False, "refused": "fail"},
        "clients": [
            group(f"application {number}", each, _commits_per_s(capture, each))
            for number, each in enumerate(applications, 1)
        ]
        or [group("captured", capture.all_sessions, capture.source.transactions_per_s)],
    }
    used = {part["file"] for each in fields["clients"] for part in each["script"]}
    scripts = {
        file: script_of(capture, each, keys, taking.get(place), after.get(place, 0.0))
        for place, (file, each) in enumerate(zip(files, capture.transactions, strict=True))
        if file in used
    }
    if capture.source.is_simple:
        fields["load"] = {"protocol": "simple"}
    return Clone(fields, setup, setup_of(keys, capture.functions, capture.views), scripts)


def _commits_per_s(capture: Capture, of: Application) -> float:
    """Return the commits of an application in a second: of a unit without a block each statement
    has its own."""
    return sum(
        per_s * (1.0 if each.block else sum(step.times for step in each.steps))
        for per_s, each in zip(of.per_s, capture.transactions, strict=True)
    )


def _group(name: str, files: Sequence[str], of: Application, commits_per_s: float) -> Fields:
    """Return the client group of an application, whose transactions begin at a rate if its sessions
    wait between two."""
    most = max(of.per_s, default=1.0)
    parts = [
        {"file": file, "weight": max(1, round(_WEIGHT * per_s / most))}
        for file, per_s in zip(files, of.per_s, strict=True)
        if per_s > 0
    ]
    group: Fields = {"name": name, "count": max(1, of.sessions), "script": parts}
    if not _is_closed(of, commits_per_s):
        group["arrival"] = {"rate": max(_RATE_MIN, round(sum(of.per_s), 3))}
    return group


def _is_closed(of: Application, commits_per_s: float) -> bool:
    """Return whether clients send one transaction after the other."""
    idle = of.sessions - of.busy_sessions
    is_short = idle <= _IDLE_S_MAX * commits_per_s
    return is_short or of.busy_sessions >= _BUSY_MIN * of.sessions
