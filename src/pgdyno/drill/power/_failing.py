"""Minimisation of a failing cut to the undecided sectors whose loss makes it fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from pgdyno.drill._checking import check_rules
from pgdyno.drill._evidence import disturbed_from_outside
from pgdyno.drill.model import Verified
from pgdyno.drill.power._cutting import HARMED, Cutter, Planned, wal_directory
from pgdyno.drill.power._explain import (
    ExplainedSector,
    Minimised,
    Sector,
    explained,
    read_records,
    records_of,
    sentence,
)
from pgdyno.drill.power._location import FileMap, Location
from pgdyno.drill.power._minimise import Search, TestLimit
from pgdyno.server.local.controldata import ControlData

if TYPE_CHECKING:
    from pgdyno._engine import Cut as DiskCut

TESTS_MAX = 80
SECONDS_MAX = 240.0


class Minimisation:
    """Minimisation of one failing cut.

    It first searches the lost sectors: with everything else written, the fewest sectors whose loss
    makes the cut fail. If losses alone do not (the failure needs an older version of a sector, or
    garbage), it searches the written sectors: the fewest that make it fail if only they are
    written.
    """

    def __init__(self, cutter: Cutter, planned: Planned, cut: DiskCut, seen: Verified) -> None:
        """``cut`` is the cut of ``planned``, the last one of the cutter."""
        self._cutter, self._planned, self._cut, self._seen = cutter, planned, cut, seen
        # Checks that read all data are only made if no cheaper check found the failure.
        self._deep = any(rule.deep and rule.name == seen.seen_by for rule in check_rules())
        self._whole = cutter.load.disks.logs.cut(
            planned.at_ns, planned.seed, planned.sector_bytes, "all"
        )
        self._limit = TestLimit(TESTS_MAX, time.monotonic() + SECONDS_MAX)
        self._locations: list[Location] = []

    def run(self, control: ControlData) -> Minimised:
        """Return the sectors that cause the failure, for the facts of the cut."""
        self._locations = self._locate()
        versions = [version for _, _, version in self._cut.sectors]
        lost = tuple(index for index, version in enumerate(versions) if version == 0)
        written = tuple(index for index, version in enumerate(versions) if version != 0)
        direction: Literal["lost", "written"] = "lost"
        search = self._search(lost, self._whole.without)
        if not search.fails(lost):
            direction, search = "written", self._search(written, self._cut.only)
        found = search.run(
            lambda index: self._locations[index].file,
            lambda index: self._locations[index].block_of_file,
        )
        sectors = self._explain(found, control)
        return {
            "direction": direction,
            "undecided": len(versions),
            "tests": self._limit.tests_made,
            "exhausted": search.exhausted,
            "sectors": sectors,
            "sentence": sentence(direction, sectors, undecided=len(versions)),
        }

    def _search(
        self, items: tuple[int, ...], cut_of: Callable[[Sequence[int]], DiskCut]
    ) -> Search[int]:
        return Search(lambda part: self._fails(cut_of(list(part))), self._limit, items)

    def _fails(self, cut: DiskCut) -> bool:
        """True if ``cut`` damages the database, or has the same outcome as the original cut."""
        verified = self._cutter.look(cut, self._planned.at_ns, deep=self._deep).verified
        if verified.disturbed:
            raise disturbed_from_outside(verified.disturbed)
        return verified.outcome in HARMED or self._seen.outcome == verified.outcome

    def _locate(self) -> list[Location]:
        """Return the content of each undecided sector after all pending writes."""
        disks = self._cutter.inspect(self._whole)
        try:
            roots = [disks.data] if disks.wal is None else [disks.data, disks.wal]
            maps = [FileMap.of(root) for root in roots]
        finally:
            disks.close()
        names = self._cutter.load.names
        return [
            names.locate(maps[disk].owner(offset), offset) for disk, offset, _ in self._cut.sectors
        ]

    def _explain(self, found: Sequence[int], control: ControlData) -> list[ExplainedSector]:
        locations = [self._locations[index] for index in found]
        sectors: list[Sector] = [
            {"disk": disk, "offset": offset, "bytes": self._planned.sector_bytes}
            for disk, offset, _ in (self._cut.sectors[index] for index in found)
        ]
        if not control.redo_lsn:
            return explained(sectors, locations, records_of(locations, ()))
        disks = self._cutter.inspect(self._whole)
        try:
            records = read_records(
                self._cutter.installation, wal_directory(disks), control.timeline, control.redo_lsn
            )
            return explained(sectors, locations, records_of(locations, records))
        finally:
            disks.close()
