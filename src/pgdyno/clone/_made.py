"""The fields of a spec for the load of a capture, with its setup and scripts."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from msgspec import Struct

from pgdyno.clone._scripts import Part, script_of
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
_MOST = 0.5
"""Share of the calls that decides how clients send all statements."""
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
    scripts = _Scripts(capture, name)

    def group(name: str, of: Application, commits_per_s: float) -> Fields:
        return _group(name, scripts.rates(of.per_s), of, commits_per_s)

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
    if (protocol := _protocol(capture)) is not None:
        fields["load"] = {"protocol": protocol}
    used = {part["file"] for each in fields["clients"] for part in each["script"]}
    setup_text = setup_of(keys, capture.functions, capture.views)
    return Clone(fields, setup, setup_text, scripts.texts(keys, used))


def _protocol(capture: Capture) -> str | None:
    """Return the protocol in which clients send most statements; None if they prepare them."""
    if capture.source.is_simple:
        return "simple"
    parsed = sum(each.calls_per_s for each in capture.statements if each.is_parsed)
    calls = sum(each.calls_per_s for each in capture.statements)
    return "extended" if parsed > _MOST * calls else None


def _commits_per_s(capture: Capture, of: Application) -> float:
    """Return the commits of an application in a second: of a unit without a block each statement
    has its own."""
    return sum(
        per_s * (1.0 if each.block else sum(step.times for step in each.steps))
        for per_s, each in zip(of.per_s, capture.transactions, strict=True)
    )


class _Scripts:
    """The scripts of a capture: one for each transaction, and for each two of a queue."""

    def __init__(self, capture: Capture, name: str) -> None:
        self._capture = capture
        self._takings = takings(capture)
        count = len(capture.transactions)
        self._files = [f"{name}-{number}.sql" for number in range(1, count + 1)]
        self._of_queues = {
            f"{name}-{place + 1}-{each.transaction + 1}.sql": place
            for place, each in self._takings.items()
        }

    def rates(self, per_s: Sequence[float]) -> dict[str, float]:
        """Return how often scripts begin in a second, by their files, of so many transactions."""
        own = own_rates(per_s, self._takings)
        of_queues = {
            file: self._takings[place].share * per_s[place]
            for file, place in self._of_queues.items()
        }
        return {**dict(zip(self._files, own, strict=True)), **of_queues}

    def texts(self, keys: Keys, used: Container[str]) -> dict[str, str]:
        """Return the scripts that are used, by their files."""
        transactions = self._capture.transactions
        followed = {each.transaction: each.part for each in self._takings.values()}
        followed |= {place: each.share for place, each in self._takings.items()}
        parts = {
            file: [Part(each, (followed.get(place, 0.0), 1.0))]
            for place, (file, each) in enumerate(zip(self._files, transactions, strict=True))
        }
        for file, place in self._of_queues.items():
            taking = self._takings[place]
            parts[file] = [
                Part(transactions[place], (0.0, taking.share)),
                Part(transactions[taking.transaction], (0.0, taking.part)),
            ]
        return {
            file: script_of(self._capture, each, keys)
            for file, each in parts.items()
            if file in used
        }


def _group(name: str, rates: Mapping[str, float], of: Application, commits_per_s: float) -> Fields:
    """Return the client group of an application, whose transactions begin at a rate if its sessions
    wait between two; by the rates of its scripts."""
    most = max(rates.values(), default=1.0)
    parts = [
        {"file": file, "weight": max(1, round(_WEIGHT * per_s / most))}
        for file, per_s in rates.items()
        if per_s > 0
    ]
    group: Fields = {"name": name, "count": max(1, of.sessions), "script": parts}
    if not _is_closed(of, commits_per_s):
        group["arrival"] = {"rate": max(_RATE_MIN, round(sum(rates.values()), 3))}
    return group


def _is_closed(of: Application, commits_per_s: float) -> bool:
    """Return whether clients send one transaction after the other."""
    idle = of.sessions - of.busy_sessions
    is_short = idle <= _IDLE_S_MAX * commits_per_s
    return is_short or of.busy_sessions >= _BUSY_MIN * of.sessions
