"""The standbys of a server started by pgdyno, and which of them commits wait for."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.dimension._dimension import Context, KeyDimension, Need, ServerUnderLoad, Transition
from pgdyno.errors import UsageError
from pgdyno.json_types import Fields
from pgdyno.spec import Change
from pgdyno.spec.standby import StandbySpec, in_words

_TABLE = "standby."
# Keys that a title shows in words; other keys appear as they are written.
_IN_WORDS = {"standby.count", "standby.mode"}


class StandbyDimension(KeyDimension):
    """The keys ``standby.…``."""

    id = "standby"
    order = 50
    keys = "standby.*"

    def owns(self, key: str) -> bool:
        """True if it is a key of the table."""
        return key.startswith(_TABLE)

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``2 synchronous standbys (remote_apply)``."""
        mine = self.mine(change)
        was = (before or {}).get("standby", {})
        count = mine.get("standby.count", was.get("count"))
        if count is not None and _IN_WORDS & mine.keys():
            yield _words(str(count), mine.get("standby.mode", was.get("mode", "async")))
            mine = {key: value for key, value in mine.items() if key not in _IN_WORDS}
        yield from (f"{key} = {value}" for key, value in mine.items())

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return LOAD_RESTART if the standbys differ: the server continues."""
        same = transition.spec_after.standby == _now(context)
        return super().needs(transition, context) if same else Need.LOAD_RESTART

    def apply(self, transition: Transition, context: Context) -> None:
        """Make the standbys, caught up, and set the server's settings for them."""
        wanted = transition.spec_after.standby
        if wanted != _now(context):
            have_standbys(context.server, wanted)
            context.recorder.add_event("standby", in_words(wanted), context.server.facts["standby"])


STANDBY = StandbyDimension()


def have_standbys(server: ServerUnderLoad, wanted: StandbySpec) -> None:
    """Make the standbys of ``wanted``, caught up, and update the server's facts."""
    from pgdyno.server import server_facts

    if server.receivers is None:
        raise UsageError(
            "standby: pgdyno does not make a standby of a server that it did not start",
            code="restart-refused",
        )
    server.receivers.arrange(wanted)
    server.facts |= server_facts(server.conninfo)
    server.facts["standby"] = server.receivers.facts()


def _now(context: Context) -> StandbySpec:
    receivers = context.server.receivers
    return StandbySpec.default() if receivers is None else receivers.spec


def _words(count: str, mode: str) -> str:
    if count == "0":
        return "no standby"
    asynchronous = mode in ("async", "local")
    kind = "asynchronous" if asynchronous else "synchronous"
    which = "" if mode in ("async", "on") else f" ({mode})"
    return f"{kind} standby{which}" if count == "1" else f"{count} {kind} standbys{which}"
