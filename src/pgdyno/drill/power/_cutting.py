"""Power cuts of one recorded load: their plan (times, sector sizes, treatment of pending sectors),
and the verification of each by a new server on the disks after the cut.

The server of the load is stopped meanwhile. The disks after a cut are mounted below the directory
of the server that verifies them, and removed with it.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from pgdyno.drill._verify import Crashed, verify
from pgdyno.drill.model import Verified
from pgdyno.drill.power._images import CutDisks, FileSystemBroken, RecordedLoad, RollingImages
from pgdyno.errors import SetupError
from pgdyno.record.cut import Outcome, Proof
from pgdyno.server import Cluster
from pgdyno.server.directories import shared_directory
from pgdyno.server.local.controldata import ControlData

if TYPE_CHECKING:
    from pgdyno._engine import Cut as DiskCut
    from pgdyno.drill._drill import LoadedServer


Keep = Literal["subset", "none", "all", "garbage"]
KEEPS: tuple[Keep, ...] = ("subset", "none", "all", "garbage")
"""Treatment of the pending sectors by the disk: a subset of them is written, none, all, or some
with content that nobody wrote. ``garbage`` simulates disks that break their guarantees, and is only
used on request."""

_SECTORS = (4096, 512)
# Of each 8 cuts one keeps nothing and one everything; the others keep subsets, which find more.
_ROUND = 8
HARMED: tuple[Outcome, ...] = ("refused", "corrupt")
_COPIES = 4


class Moment(Struct, frozen=True):
    """A time for a cut."""

    at_ns: int
    why: str
    """pending, flush-edge, mark or random."""


class Planned(Struct, frozen=True):
    """A planned power cut."""

    number: int
    """Number from 1, in the order of time."""
    at_ns: int
    why: str
    seed: int
    sector_bytes: int
    keep: Keep

    @property
    def variant(self) -> str:
        """The variant in results, such as ``subset-4096`` or ``none``."""
        whole = self.keep in ("none", "all")
        return self.keep if whole else f"{self.keep}-{self.sector_bytes}"


def plan_cuts(
    moments: Iterable[Moment],
    seed: int,
    *,
    sector_bytes: int | None = None,
    keep: Keep | None = None,
) -> list[Planned]:
    """Plan a cut for each moment, in the order of time, as rolling images require.

    The seed decides what is not given; the seed of a cut depends only on its number.
    """
    planned = []
    for number, moment in enumerate(sorted(moments, key=lambda moment: moment.at_ns), start=1):
        rng = random.Random(f"{seed}/power/{number}")
        own_seed, mixed = rng.getrandbits(31), rng.choice(_SECTORS)
        planned.append(
            Planned(
                number=number,
                at_ns=moment.at_ns,
                why=moment.why,
                seed=own_seed,
                sector_bytes=sector_bytes or mixed,
                keep=keep or _kept(number),
            )
        )
    return planned


def _kept(number: int) -> Keep:
    match number % _ROUND:
        case 3:
            return "none"
        case 6:
            return "all"
        case _:
            return "subset"


class VerifiedCut(Struct, frozen=True):
    """The state of a server after one cut."""

    control: ControlData
    """The control file before the start; empty if a disk could not be mounted."""
    verified: Verified


class Cutter:
    """Maker of the cuts of one load, in the order of time."""

    def __init__(self, drill: LoadedServer, load: RecordedLoad) -> None:
        """``drill`` has recorded ``load``, and its server is stopped."""
        self._drill = drill
        self.installation = drill.cluster.installation
        self.load = load
        self.directory = drill.directory / "power"
        shared_directory(self.directory)
        _require_space(load.disks.bases, self.directory)
        self.images = RollingImages(load.disks, self.directory)

    def disk_cut(self, planned: Planned) -> DiskCut:
        """Advance the images to the time of a cut, and decide each undecided sector."""
        self.images.advance(planned.at_ns)
        return self.load.disks.logs.cut(
            planned.at_ns, planned.seed, planned.sector_bytes, planned.keep
        )

    def look(self, cut: DiskCut, at_ns: int, *, deep: bool = True) -> VerifiedCut:
        """Start a server on the disks after ``cut``, verify it, and remove it."""
        origin = self._drill.cluster
        settings = {**origin.settings, "synchronous_standby_names": ""}
        try:
            cluster = Cluster.create(
                origin.installation, settings, disks=self.images.disks_after(cut)
            )
        except FileSystemBroken as broken:
            verified = Verified("refused", None, None, seen_by="mount", server_said=broken.message)
            return VerifiedCut(ControlData(), verified)
        try:
            control = cluster.control_data()
            cluster.forget_settings(["synchronous_standby_names"])
            crashed = Crashed(
                cluster=cluster,
                acks=self.load.acks,
                cut_ns=at_ns,
                witnesses=self._drill.witnesses,
                only_before_cut=True,
            )
            return VerifiedCut(control, verify(crashed, deep=deep))
        finally:
            cluster.destroy()

    def inspect(self, cut: DiskCut) -> CutDisks:
        """Mount the disks after ``cut``. Close them before the next call."""
        return self.images.disks_after(cut)(self.directory)


def _require_space(bases: Sequence[Path], directory: Path) -> None:
    """Check the space for the rolling images, the images of a cut, and the writes to them."""
    used = sum(base.stat().st_blocks * 512 for base in bases)
    free = shutil.disk_usage(directory).free
    if free < _COPIES * used:
        raise SetupError(
            f"power cuts of disks with {used >> 20:,} MB need {_COPIES * used >> 20:,} MB in"
            f" {directory}, where {free >> 20:,} MB are free",
            code="disk-space",
            hint="set PGDYNO_HOME to a directory with more space, or choose a smaller --scale",
        )


def _writes(number: int) -> str:
    return "1 write was" if number == 1 else f"{number:,} writes were"


def proof_of(planned: Planned, cut: DiskCut, control: ControlData) -> Proof:
    """Return the proof of a power cut: the sectors that it lost, and the control file's state."""
    facts = cut.facts()
    lost = facts["sectors"] - facts["kept"] - facts["garbage"]
    losses = (
        f"{_writes(facts['pending_writes'])} pending, {lost:,} of {facts['sectors']:,} sectors lost"
        if facts["sectors"]
        else "no write was pending: the disk lost nothing"
    )
    found = "the control file cannot be read"
    if control.state:
        found = f'the control file says "{control.state}"'
    details: dict[str, object] = {
        "why": planned.why,
        "sector_bytes": facts["sector_bytes"],
        "pending_writes": facts["pending_writes"],
        "sectors": facts["sectors"],
        "kept": facts["kept"],
        "garbage": facts["garbage"],
        "lost": lost,
        "control_file": control.state,
    }
    return Proof(happened=not control.shut_down, sentence=f"{losses}; {found}", facts=details)


def wal_directory(disks: CutDisks) -> Path:
    """Return the WAL directory on mounted disks."""
    return disks.wal / "pg_wal" if disks.wal else disks.data / "pgdata/pg_wal"
