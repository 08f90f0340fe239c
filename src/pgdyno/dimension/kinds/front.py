"""The front end that pgdyno starts before the server: its pool, its connector, its driver."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.dimension._changing import spec_with
from pgdyno.dimension._dimension import Context, KeyDimension, Need, Transition
from pgdyno.errors import UsageError
from pgdyno.json_types import Fields
from pgdyno.spec import Change
from pgdyno.spec.front import TITLES, in_words, own_name, value_of

_TABLE = "front."
_POOL = "front.pool"


class Front(KeyDimension):
    """The keys ``front.KEY``."""

    id = "front"
    order = 86
    two_sided = True
    keys = "front.*"

    def owns(self, key: str) -> bool:
        """True if it is a key of the table."""
        return key.startswith(_TABLE) and key != _TABLE

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``web.maxTotal 8 → 50``, by the names of the part itself."""
        mine, table = self.mine(change), (before or {}).get("front") or {}
        pool = mine.get(_POOL, table.get("pool", "dbcp2"))
        for key, value in mine.items():
            name = key.removeprefix(_TABLE)
            if key == _POOL:
                yield f"pool {TITLES.get(value, value)}"
                continue
            was = value_of(table, name) if table else None
            words = f"web.{own_name(pool, name)}"
            yield f"{words} = {value}" if was is None else f"{words} {was} → {value}"

    def provide(self, change: Change, context: Context, *, under_load: bool) -> None:
        """Refuse a change of a front end that is not there, and check the values."""
        if not self.mine(change):
            return
        if context.server.application is None:
            raise UsageError(
                "front.*: pgdyno changes only a front end that it started",
                code="no-front",
                hint="give the spec a table [front]; of your own web server, the finding names the"
                " pool, and you change it",
            )
        spec_with(context.base, change)

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return RELOAD if the front end can go there while it serves requests, LOAD_RESTART if it
        has to start anew."""
        running, wanted = context.server.application, transition.spec_after.front
        if running is None or wanted is None or running.suits(wanted):
            return Need.NOTHING
        return Need.RELOAD if running.follows(wanted) else Need.LOAD_RESTART

    def apply(self, transition: Transition, context: Context) -> None:
        """Change the front end that runs, or start another in its place."""
        running, wanted = context.server.application, transition.spec_after.front
        if running is None or wanted is None or running.suits(wanted):
            return
        if running.follows(wanted):
            running.follow(wanted)
        else:
            running.arrange(wanted)
        context.server.facts["front"] = running.facts()
        context.recorder.add_event("front", in_words(wanted), running.facts())


FRONT = Front()
