"""Minimisation of a failing cut: which undecided sectors have to be lost for it to fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pgdyno.drill._checking import check_rules
from pgdyno.drill._drill import disturbed_from_outside
from pgdyno.drill.model import Verified
from pgdyno.drill.power._cutting import HARMED, Cutter, wal_dir
from pgdyno.drill.power._explain import explained, sentence, touching
from pgdyno.drill.power._filemap import FileMap
from pgdyno.drill.power._minimise import Budget, Search
from pgdyno.drill.power._names import Spot
from pgdyno.drill.power._plan import Planned
from pgdyno.drill.power._walrecords import read_records
from pgdyno.server.local.controldata import ControlData

if TYPE_CHECKING:
    from pgdyno._engine import Cut as DiskCut

TESTS_MAX = 80
SECONDS_MAX = 240.0


class Minimisation:
    """One failing cut, made smaller.

    First by what is lost: everything else that was pending is taken as written, and the fewest
    sectors are sought whose loss alone still makes it fail. Where the failure needs more than
    losses (an older version of a sector, garbage), by what is kept: the fewest sectors of which
    it is enough that they alone were written.
    """

    def __init__(self, cutter: Cutter, planned: Planned, cut: DiskCut, seen: Verified) -> None:
        """``cut`` is the cut of ``planned``, to which the cutter has rolled forward last."""
        self._cutter, self._planned, self._cut, self._seen = cutter, planned, cut, seen
        # What reads everything is made only where nothing cheaper saw the failure.
        self._deep = any(rule.deep and rule.name == seen.seen_by for rule in check_rules())
        self._whole = cutter.load.disks.logs.cut(
            planned.at_ns, planned.seed, planned.sector_bytes, "all"
        )
        self._budget = Budget(TESTS_MAX, time.monotonic() + SECONDS_MAX)
        self._spots: list[Spot] = []

    def run(self, control: ControlData) -> dict[str, Any]:
        """What the failure comes down to, for the facts of the cut."""
        self._spots = self._locate()
        fates = [fate for _, _, fate in self._cut.sectors]
        lost = tuple(index for index, fate in enumerate(fates) if fate == 0)
        kept = tuple(index for index, fate in enumerate(fates) if fate != 0)
        direction, search = "lost", self._search(lost, self._whole.without)
        if not search.fails(lost):
            direction, search = "written", self._search(kept, self._cut.only)
        found = search.run(lambda index: self._spots[index].file, lambda i: self._spots[i].place)
        facts = self._explain(found, control)
        return {
            "direction": direction,
            "undecided": len(fates),
            "tests": self._budget.spent,
            "exhausted": search.exhausted,
            "sectors": facts,
            "sentence": sentence(direction, facts, undecided=len(fates)),
        }

    def _search(
        self, items: tuple[int, ...], made: Callable[[Sequence[int]], DiskCut]
    ) -> Search[int]:
        return Search(lambda part: self._fails(made(list(part))), self._budget, items)

    def _fails(self, cut: DiskCut) -> bool:
        """Whether it still fails in kind: damage stays damage, loss at least loss."""
        verified = self._cutter.look(cut, self._planned.at_ns, deep=self._deep).verified
        if verified.disturbed:
            raise disturbed_from_outside(verified.disturbed)
        return verified.outcome in HARMED or self._seen.outcome == verified.outcome

    def _locate(self) -> list[Spot]:
        """What lies at each undecided sector, once everything pending is written."""
        places = self._cutter.inspect(self._whole)
        try:
            roots = [places.data] if places.wal is None else [places.data, places.wal]
            maps = [FileMap.of(root) for root in roots]
        finally:
            places.close()
        names = self._cutter.load.names
        return [
            names.spot(maps[disk].owner(offset), offset) for disk, offset, _ in self._cut.sectors
        ]

    def _explain(self, found: Sequence[int], control: ControlData) -> list[dict[str, Any]]:
        spots = [self._spots[index] for index in found]
        sectors = [
            {"disk": disk, "offset": offset, "bytes": self._planned.sector_bytes}
            for disk, offset, _ in (self._cut.sectors[index] for index in found)
        ]
        if not control.redo_lsn:
            return explained(sectors, spots, touching(spots, ()))
        places = self._cutter.inspect(self._whole)
        try:
            records = read_records(
                self._cutter.installation, wal_dir(places), control.timeline, control.redo_lsn
            )
            return explained(sectors, spots, touching(spots, records))
        finally:
            places.close()
