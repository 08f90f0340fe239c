"""``power``: a power failure. One load is recorded, and many cuts are made of the recording.

Everything that was flushed is present after a cut. Of what was under way, the seed decides for each
sector whether it is old or new: disks write in any order, and less than a page at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.drill._bounds import Bound, of_a_crash, of_a_lost_wal
from pgdyno.drill._drill import LoadedServer
from pgdyno.drill.fault import Fault
from pgdyno.drill.model import DrillOptions, Verified
from pgdyno.drill.power._cutting import HARMED, KEEPS, Cutter, Moment, Planned, plan_cuts, proof_of
from pgdyno.drill.power._failing import Minimisation
from pgdyno.drill.power._images import RecordedLoad
from pgdyno.drill.power._recording import recorded_load
from pgdyno.errors import UsageError
from pgdyno.record.cut import Cut, Facts
from pgdyno.remedy import Circumstances
from pgdyno.spec import Spec
from pgdyno.spec.disk import DiskPlan

DISK = "blackout"


def _adapt(spec: Spec, _options: DrillOptions) -> Spec:
    """Put the data on a recording disk, and the WAL on another if the spec separates it."""
    disk = spec.disk
    data = disk.data if disk.data_plan.kind == "blackout" else DISK
    wal = disk.wal
    if disk.wal_plan is not None and disk.wal_plan.kind != "blackout":
        wal = DISK
    changed = disk.model_copy(update={"data": data, "wal": wal})
    return spec.model_copy(update={"disk": changed})


def _check(spec: Spec, _options: DrillOptions) -> None:
    for name, plan in (("data", spec.disk.data_plan), ("wal", spec.disk.wal_plan)):
        if plan is None or plan.kind == "blackout" or plan == DiskPlan("plain"):
            continue
        tmpfs = "; --fault wal-device loses the whole disk of the WAL"
        raise UsageError(
            f"disk.{name} is {plan}: power cuts need disks that record what is written",
            code="bad-disk",
            hint=f"omit it, or use {DISK}" + (tmpfs if plan.kind == "tmpfs" else ""),
        )


def _cuts(drill: LoadedServer) -> Iterator[Cut]:
    load = recorded_load(drill)
    cutter = Cutter(drill, load)
    to_minimise = drill.options.minimise
    planned = _chosen(_planned(drill, load), drill.options.cut)
    for one, _ in zip(planned, drill.plan(), strict=False):
        disk_cut = cutter.disk_cut(one)
        looked = cutter.look(disk_cut, one.at_ns)
        proof = proof_of(one, disk_cut, looked.control)
        facts: Facts = {}
        undisturbed = proof.happened and not looked.verified.disturbed
        if to_minimise and undisturbed and _worse_than_documented(drill, looked.verified):
            to_minimise = False
            drill.session.watcher.phase(f"minimising cut {one.number}")
            search = Minimisation(cutter, one, disk_cut, looked.verified)
            facts["minimised"] = found = search.run(looked.control)
            drill.session.watcher.step(f"cut {one.number} minimised: {found['sentence']}")
        yield drill.cut(
            one.number,
            one.seed,
            one.at_ns,
            proof,
            looked.verified,
            variant=one.variant,
            facts=facts,
        )


def _planned(drill: LoadedServer, load: RecordedLoad) -> Sequence[Planned]:
    """Plan the cuts; in a sham, all of them after everything has been flushed."""
    options = drill.options
    if options.sham:
        moments = [Moment(load.last_ns, "after the end")] * options.cuts
        return plan_cuts(moments, options.seed, keep="all")
    ranked = load.disks.logs.ranked(options.cuts, options.seed, list(load.marks_ns))
    moments = [Moment(time["at_ns"], time["why"]) for time in ranked]
    keep = next((each for each in KEEPS if each == options.variant), None)
    return plan_cuts(moments, options.seed, sector_bytes=options.sector_bytes, keep=keep)


def _chosen(planned: Sequence[Planned], number: int | None) -> Sequence[Planned]:
    """Return only cut ``number`` if it is given."""
    if number is None:
        return planned
    if number > len(planned):
        raise UsageError(f"there is no cut {number} of {len(planned)}", code="no-such-cut")
    return [planned[number - 1]]


def _worse_than_documented(drill: LoadedServer, verified: Verified) -> bool:
    """True if the cut shows damage, or a loss beyond the bound."""
    if verified.outcome in HARMED:
        return True
    ledger, bound_ms = verified.ledger, drill.bound.ms
    return bool(ledger and ledger.lost and bound_ms is not None and ledger.lost_ms > bound_ms)


def _bound(server: Circumstances) -> Bound:
    if server.unlogged:
        return of_a_crash(server)
    if server.wal_in_memory:
        return of_a_lost_wal(server)
    if not server.is_on("fsync", default=True):
        return Bound(None, "with fsync = off a power cut may damage everything")
    if not server.is_on("full_page_writes", default=True):
        return Bound(
            None,
            "with full_page_writes = off a power cut may tear pages: the database may be unusable,"
            " or damaged without an error",
        )
    return of_a_crash(server)


FAULT = Fault(
    name="power",
    records_load=True,
    summary="power cuts at chosen moments of one recorded load",
    adapt=_adapt,
    check=_check,
    cuts=_cuts,
    variants=KEEPS,
    pooled=True,
    bound=_bound,
    seconds_min=25.0,
    cuts_usual=6,
)
