"""The result of ``pgdyno drill``."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict

from pgdyno.record.cut import Cut, Rounded3
from pgdyno.record.part import Number, Part
from pgdyno.results.chapter import RecordedChapter

if TYPE_CHECKING:
    from pgdyno.record import RunFile

_Rounded4 = Annotated[float, AfterValidator(partial(round, ndigits=4))]
"""A number rounded to four decimals."""


class Summary(Part):
    """The figures over all cuts"""

    cuts: int
    happened: int
    """Cuts whose fault is proved; all figures below are over these"""
    acked: int
    lost_max: int | None
    lost_median: Number | None
    lost_ms_max: Rounded3 | None
    lost_ms_median: Rounded3 | None
    bound_ms: Number | None
    """Documented bound of loss; null: there is none"""
    corrupt: int
    refused: int
    lost: int
    """Cuts that lost commits and are otherwise undamaged"""
    clean: int
    recovery_s_median: Rounded3 | None
    recovery_s_max: Rounded3 | None
    no_commit_ms_median: Rounded3 | None
    """Time without an acknowledged commit in a failover; null for other faults"""
    no_commit_ms_max: Rounded3 | None
    upper_bound: float | None
    """Upper bound, at 95 % confidence, of the share of such faults that do harm"""
    sentence: str


class Drill(Part):
    """A drill on one server"""

    schema_version: Literal[1]
    run_file: str
    fault: str
    title: str
    seed: int
    sham: bool
    """Everything was done except the fault"""
    server_version: str
    emulated: str | None
    """The emulated disks that recovery times come from; null: none"""
    settings: dict[str, str]
    """The active settings that decide what may be lost"""
    bound: str
    """The loss that the documentation allows, in words"""
    cuts: tuple[Cut, ...]
    summary: Summary

    @property
    def fault_missing(self) -> bool:
        """True if a cut's fault did not happen, so that the drill cannot be trusted."""
        return not self.cuts or any(cut.outcome == "no-fault" for cut in self.cuts)

    @property
    def nothing_acked(self) -> bool:
        """True if no transaction was acknowledged before any cut."""
        return bool(self.cuts) and not any(cut.ledger and cut.ledger.acked for cut in self.cuts)

    def worse_than_bound(self) -> list[Cut]:
        """Return the cuts that lost more than the documentation allows, or are damaged."""
        return [cut for cut in self.cuts if _is_beyond(cut, self.summary.bound_ms)]


def _is_beyond(cut: Cut, bound_ms: float | None) -> bool:
    bound_ms = cut.facts.get("bound_ms", bound_ms)
    if bound_ms is None or not cut.facts.get("promised", True):
        return False
    if cut.outcome in ("refused", "corrupt"):
        return True
    ledger = cut.ledger
    return ledger is not None and ledger.lost > 0 and ledger.lost_ms > bound_ms


class Difference(Part):
    what: Literal["lost", "lost_ms", "recovery_s", "damaged"]
    here: _Rounded4
    there: _Rounded4
    p: float
    differs: bool
    sentence: str


class DrillResult(Drill):
    model_config = ConfigDict(
        title="pgdyno drill --format json",
        json_schema_extra={"dependentRequired": {"against": ["differences"]}},
    )

    chapter: RecordedChapter | None = None
    """Present if the run is a chapter of a story"""
    against: Drill | None = None
    """The same drill on the other server, with a second --pg-bindir"""
    differences: tuple[Difference, ...] | None = None

    in_tables: ClassVar[tuple[str, ...]] = ("cuts",)

    @classmethod
    def of_tables(cls, run: "RunFile") -> dict[str, object]:
        """Return the cuts of the only drill."""
        return {"cuts": [cut for drill in run.drills() for cut in run.cuts(drill.id)]}
