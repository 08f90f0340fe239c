"""Checksums of data pages: turned on or off by pg_checksums while the server is down."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.dimension._dimension import Context, KeyDimension, Need, Transition
from pgdyno.dimension._own_server import own_server
from pgdyno.json_types import Fields
from pgdyno.spec import Change

_KEY = "server.checksums"


class Checksums(KeyDimension):
    """The key ``server.checksums``."""

    id = "checksums"
    order = 40
    keys = _KEY

    def owns(self, key: str) -> bool:
        """True if it is the key of this dimension."""
        return key == _KEY

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``with checksums``."""
        for value in self.mine(change).values():
            yield "with checksums" if value == "true" else "no checksums"

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return SERVER_RESTART if the server's checksums differ from the spec."""
        if own_server(transition.before) or own_server(transition.after):
            return Need.NOTHING  # Such a server is made with or without them.
        same = self._wanted(transition, context) == context.server.checksums
        return super().needs(transition, context) if same else Need.SERVER_RESTART

    def while_down(self, transition: Transition, context: Context) -> None:
        """Turn checksums on or off."""
        wanted = self._wanted(transition, context)
        assert context.server.cluster is not None
        context.server.cluster.set_checksums(wanted=wanted)
        context.server.facts["settings"]["data_checksums"] = "on" if wanted else "off"

    def _wanted(self, transition: Transition, context: Context) -> bool:
        """Return the spec's value, or by default the server's initial one."""
        initial = context.remembered.setdefault(self.id, context.server.checksums)
        said = transition.spec_after.server.checksums
        return bool(initial if said is None else said)


DIMENSION = Checksums()
