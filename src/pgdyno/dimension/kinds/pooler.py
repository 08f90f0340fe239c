"""The pooler that pgdyno starts in front of the server, and its settings."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.dimension._changing import spec_with
from pgdyno.dimension._dimension import Context, KeyDimension, Need, Transition
from pgdyno.errors import UsageError
from pgdyno.json_types import Fields
from pgdyno.spec import Change
from pgdyno.spec.pooler import TITLES, in_words

_TABLE = "pooler."
_KIND = "pooler.kind"


class Pooler(KeyDimension):
    """The keys ``pooler.kind`` and ``pooler.SETTING``."""

    id = "pooler"
    order = 85
    two_sided = True
    keys = "pooler.*"

    def owns(self, key: str) -> bool:
        """True if it is a key of the table."""
        return key.startswith(_TABLE) and key != _TABLE

    def enter(self, fields: Fields, change: Change) -> None:
        """Set kind and settings; another kind begins without the settings of the first."""
        mine = self.mine(change)
        if not mine:
            return
        table = dict(fields.get("pooler") or {})
        kind = mine.pop(_KIND, None)
        if kind is not None and kind != table.get("kind", "none"):
            table = {"kind": kind}
        settings = {_name(key): value for key, value in mine.items()}
        fields["pooler"] = {**table, "settings": {**table.get("settings", {}), **settings}}

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``PgBouncer, default_pool_size = 5``."""
        mine = self.mine(change)
        kind = mine.pop(_KIND, None)
        if kind is not None:
            yield TITLES.get(kind, kind) if kind != "none" else "no pooler"
        yield from (f"{_name(key)} = {value}" for key, value in mine.items())

    def provide(self, change: Change, context: Context, *, under_load: bool) -> None:
        """Start and end the pooler once before the load, so that a wrong setting is told now."""
        if not self.mine(change):
            return
        gateway = context.server.gateway
        if gateway is None:
            raise UsageError(
                "the connection string is that of a pooler already",
                code="pooler-in-front",
                hint="name the server itself, and pgdyno starts a pooler in front of it",
            )
        if not under_load:
            gateway.try_out(spec_with(context.base, change))

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return LOAD_RESTART if the pooler differs, or what follows from the number of clients;
        RELOAD if the one that is there can go to its new settings under load."""
        gateway = context.server.gateway
        if gateway is None or gateway.suits(transition.spec_after):
            return Need.NOTHING
        return Need.RELOAD if gateway.follows(transition.spec_after) else Need.LOAD_RESTART

    def apply(self, transition: Transition, context: Context) -> None:
        """Start the pooler in place of the one that is there, or change that one."""
        have_pooler(context, transition)


POOLER = Pooler()


def have_pooler(context: Context, transition: Transition) -> None:
    """Have the pooler of the transition's end, and record it. A transition that needs more than the
    pooler does ends the load, and then it is started anew."""
    gateway, wanted = context.server.gateway, transition.spec_after
    if gateway is not None and not gateway.suits(wanted):
        if transition.need < Need.LOAD_RESTART and gateway.follows(wanted):
            gateway.follow(wanted)
        else:
            gateway.arrange(wanted)
        context.server.facts["pooler"] = gateway.facts()
        context.recorder.add_event("pooler", in_words(wanted.pooler), gateway.facts() or {})


def _name(key: str) -> str:
    return key.removeprefix(_TABLE).removeprefix("settings.")
