"""The standbys of a server of ours, and what commits wait for: arranged while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pgdyno.dimension._dimension import KeyDimension, Need, Place, Server, Step
from pgdyno.errors import UsageError
from pgdyno.spec import Change
from pgdyno.spec.standby import StandbySpec, in_words

_TABLE = "standby."
# What a title says in words; other keys are told as they are written.
_IN_WORDS = {"standby.count", "standby.mode"}


class Standby(KeyDimension):
    """The keys ``standby.…``."""

    id = "standby"
    order = 50
    keys = "standby.*"

    def owns(self, key: str) -> bool:
        """All of the table."""
        return key.startswith(_TABLE)

    def titles(self, change: Change, before: Mapping[str, Any] | None) -> Iterable[str]:
        """``asynchronous standby``, ``2 synchronous standbys (remote_apply)``."""
        mine = self.mine(change)
        was = (before or {}).get("standby", {})
        count = mine.get("standby.count", was.get("count"))
        if count is not None and _IN_WORDS & mine.keys():
            yield _words(str(count), mine.get("standby.mode", was.get("mode", "async")))
            mine = {key: value for key, value in mine.items() if key not in _IN_WORDS}
        yield from (f"{key} = {value}" for key, value in mine.items())

    def needs(self, step: Step, place: Place) -> Need:
        """The load starts afresh; the server runs on."""
        same = step.wanted.standby == _now(place)
        return super().needs(step, place) if same else Need.LOAD_RESTART

    def apply(self, step: Step, place: Place) -> None:
        """Have them, caught up; the server's settings follow."""
        wanted = step.wanted.standby
        if wanted != _now(place):
            have_standbys(place.server, wanted)
            place.recorder.add_event("standby", in_words(wanted), place.server.facts["standby"])


DIMENSION = Standby()


def have_standbys(server: Server, wanted: StandbySpec) -> None:
    """Have the standbys that ``wanted`` tells, caught up; the server's facts follow."""
    from pgdyno.server import server_facts

    if server.receivers is None:
        raise UsageError(
            "standby: pgdyno makes no standby of a server that it did not start",
            code="restart-refused",
        )
    server.receivers.arrange(wanted)
    server.facts |= server_facts(server.conninfo)
    server.facts["standby"] = server.receivers.facts()


def _now(place: Place) -> StandbySpec:
    receivers = place.server.receivers
    return StandbySpec() if receivers is None else receivers.spec


def _words(count: str, mode: str) -> str:
    if count == "0":
        return "no standby"
    asynchronous = mode in ("async", "local")
    kind = "asynchronous" if asynchronous else "synchronous"
    which = "" if mode in ("async", "on") else f" ({mode})"
    return f"{kind} standby{which}" if count == "1" else f"{count} {kind} standbys{which}"
