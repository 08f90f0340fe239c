"""The way by which the workload ingest brings rows in, and how many it commits at a time."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.dimension._dimension import KeyDimension
from pgdyno.errors import UsageError
from pgdyno.json_types import Fields
from pgdyno.spec import Change, Spec

_WAY, _BATCH = _KEYS = ("workload.ingest", "workload.batch")
_TITLES = {
    "single": "single inserts",
    "multirow": "multi-row inserts",
    "pipeline": "pipelined inserts",
    "copy": "COPY",
}
_WORKLOAD = "ingest"


class Ingest(KeyDimension):
    """The keys ``workload.ingest`` and ``workload.batch``."""

    id = "ingest"
    order = 66
    two_sided = True
    keys = ", ".join(_KEYS)

    def owns(self, key: str) -> bool:
        """True if it is a key of this dimension."""
        return key in _KEYS

    def read(self, key: str, value: str, spec: Spec | None) -> Change | None:
        """Read a key. Raises UsageError for another workload than ingest."""
        if self.owns(key) and spec is not None and not spec.runs(_WORKLOAD):
            raise UsageError(
                f"{key} is of the workload {_WORKLOAD} only",
                code="not-ingest",
                hint=f"pgdyno compare {_WORKLOAD} --vary {_WAY}=single,copy",
            )
        return super().read(key, value, spec)

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``multi-row inserts, 10 rows per commit``."""
        mine = self.mine(change)
        if way := mine.get(_WAY):
            yield _TITLES.get(way, way)
        if batch := mine.get(_BATCH):
            yield f"{batch} {'row' if batch == '1' else 'rows'} per commit"


DIMENSION = Ingest()
