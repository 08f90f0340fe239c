"""Whether data pages have checksums: turned on or off by pg_checksums while the server is down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pgdyno.dimension._dimension import KeyDimension, Need, Place, Step
from pgdyno.spec import Change

_KEY = "server.checksums"


class Checksums(KeyDimension):
    """The key ``server.checksums``."""

    id = "checksums"
    order = 40
    keys = _KEY

    def owns(self, key: str) -> bool:
        """That one."""
        return key == _KEY

    def titles(self, change: Change, before: Mapping[str, Any] | None) -> Iterable[str]:
        """``with checksums``."""
        for value in self.mine(change).values():
            yield "with checksums" if value == "true" else "no checksums"

    def needs(self, step: Step, place: Place) -> Need:
        """A restart, if the server has them otherwise."""
        same = self._wanted(step, place) == place.server.checksums
        return super().needs(step, place) if same else Need.SERVER_RESTART

    def while_down(self, step: Step, place: Place) -> None:
        """Rewrite the pages."""
        wanted = self._wanted(step, place)
        assert place.server.cluster is not None
        place.server.cluster.set_checksums(wanted=wanted)
        place.server.facts["settings"]["data_checksums"] = "on" if wanted else "off"

    def _wanted(self, step: Step, place: Place) -> bool:
        """What the spec says, or else what the server had at first."""
        at_first = place.remembered.setdefault(self.id, place.server.checksums)
        said = step.wanted.server.checksums
        return bool(at_first if said is None else said)


DIMENSION = Checksums()
