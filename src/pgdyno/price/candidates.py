"""What is priced: the ladder from all safe to all lost, as data, and candidates of the user's own.

A candidate is a change for the gain, the same change in a spec for the drills, and the faults that
show its price. What it may lose, as PostgreSQL's documentation has it, is the catalogue's word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pgdyno.dimension import change_of, spec_with, title_of
from pgdyno.errors import UsageError
from pgdyno.remedy import DurabilityClass, Remedy, catalogue
from pgdyno.spec import Change, Spec

_NEXT_ASSIGNMENT = re.compile(r",(?=\s*[A-Za-z_][A-Za-z0-9_.]*\s*=)")
_OFF = {"off", "false", "no", "0"}
# Settings whose effect, or whose bill, comes with a checkpoint.
CHECKPOINT_SETTINGS = frozenset(
    {
        *("max_wal_size", "min_wal_size", "checkpoint_timeout", "checkpoint_completion_target"),
        *("checkpoint_flush_after", "full_page_writes", "wal_compression"),
    }
)
BASELINE = "all-on"
WAL_TMPFS = "tmpfs:2GB"
SAFE_FAULTS = ("kill", "power")
"""What a setting that loses nothing is held to."""
FAULTS: Mapping[str, tuple[str, ...]] = {
    "commit-delay": ("power",),
    "synchronous-commit-off": ("kill", "power"),
    "full-page-writes-off": ("power",),
    "fsync-off": ("power",),
    "wal-on-tmpfs": ("wal-device",),
    "wal-on-tmpfs-async-standby": ("wal-device",),
    "wal-on-tmpfs-sync-standby": ("wal-device",),
    "unlogged-tables": ("kill",),
}
"""Remedy → the drills in which its price shows."""


@dataclass(frozen=True)
class Candidate:
    """One line of the price list."""

    id: str
    title: str
    durability_class: DurabilityClass
    bound: str
    """What may be lost at most, as PostgreSQL's documentation has it."""
    change: Change
    faults: tuple[str, ...]
    """The drills that price it."""
    remedy: str | None = None
    """Its entry in the catalogue of remedies."""
    base: Change = field(default_factory=Change)
    """What both sides of its trial have besides the spec."""

    @property
    def is_baseline(self) -> bool:
        """Whether nothing is changed, so that there is no gain to measure."""
        return not self.change

    @property
    def checkpoint_bound(self) -> bool:
        """Whether its slices must begin at a checkpoint and pay for the next."""
        return bool(CHECKPOINT_SETTINGS & set(self.change.settings))

    @property
    def rearranges(self) -> bool:
        """Whether putting it in force stops the server or rewrites tables."""
        return any(not key.startswith(("load.", "clients.")) for key in self.change.spec)

    def in_force(self) -> Change:
        """What differs from the spec on the changed side."""
        return self.change.over(self.base)

    def spec(self, spec: Spec) -> Spec:
        """``spec`` with the candidate in it from the start, as a drill wants it."""
        return spec_with(spec, self.in_force())


def _of(
    candidate_id: str,
    remedy_id: str,
    *,
    settings: Mapping[str, str] | None = None,
    spec: Mapping[str, str] | None = None,
    base: Mapping[str, str] | None = None,
    bound: str | None = None,
) -> Candidate:
    """A candidate that a remedy of the catalogue stands behind."""
    remedy = catalogue()[remedy_id]
    change, both = Change(settings=settings or {}, spec=spec or {}), Change(spec=base or {})
    return Candidate(
        id=candidate_id,
        title=title_of(change.over(both)),
        durability_class=remedy.durability_class,
        bound=bound or remedy.bound,
        change=change,
        faults=faults_of([remedy_id]),
        remedy=remedy_id,
        base=both,
    )


def _asynchronous(candidate_id: str, delay: str, bound: str) -> Candidate:
    return _of(
        candidate_id,
        "synchronous-commit-off",
        settings={"synchronous_commit": "off", "wal_writer_delay": delay},
        bound=(
            "commits acknowledged within the last three times wal_writer_delay"
            f" ({bound}) may be lost after a crash; what remains is consistent"
        ),
    )


def ladder() -> tuple[Candidate, ...]:
    """The default price list, from losing nothing to losing all."""
    return (
        Candidate(
            id=BASELINE,
            title="all on",
            durability_class="D0",
            bound="nothing is lost",
            change=Change(),
            faults=SAFE_FAULTS,
        ),
        _of("commit-delay", "commit-delay", settings={"commit_delay": "100"}),
        _asynchronous("async-10ms", "10ms", "30 ms"),
        _asynchronous("async-200ms", "200ms", "600 ms"),
        _asynchronous("async-2s", "2s", "6 s"),
        _of("fpw-off", "full-page-writes-off", settings={"full_page_writes": "off"},
            base={"server.checksums": "true"}),
        _of("fpw-off-no-checksums", "full-page-writes-off",
            settings={"full_page_writes": "off"}, base={"server.checksums": "false"}),
        _of("wal-tmpfs", "wal-on-tmpfs", spec={"disk.wal": WAL_TMPFS}),
        _of("wal-tmpfs-async", "wal-on-tmpfs-async-standby",
            spec={"disk.wal": WAL_TMPFS, "standby.count": "1", "standby.mode": "async"}),
        _of("wal-tmpfs-sync", "wal-on-tmpfs-sync-standby",
            spec={"disk.wal": WAL_TMPFS, "standby.count": "1", "standby.mode": "on"}),
        _of("unlogged", "unlogged-tables", spec={"workload.unlogged": "true"}),
        _of("fsync-off", "fsync-off", settings={"fsync": "off"}),
    )  # fmt: skip


def choose(
    asked: Iterable[str] | None, own: Iterable[str], *, where: str = "--candidate"
) -> tuple[Candidate, ...]:
    """The rungs named in ``asked`` (``None``: all, or none beside ``own``), then ``own``.

    ``where`` says where ``own`` was given. The baseline is always the first. Raises
    :class:`UsageError` for what is not on the ladder, for an empty candidate and for one given
    twice.
    """
    known = {rung.id: rung for rung in ladder()}
    own = [*own]
    if asked is None:
        names = [] if own else list(known)
    else:
        names = [name.strip() for name in asked if name.strip()]
    for name in names:
        if name not in known:
            raise UsageError(
                f'"{name}" is not on the ladder', code="unknown-candidate",
                hint=f"it has {', '.join(known)}; what else is to be priced goes with --candidate",
            )  # fmt: skip
    chosen = [known[BASELINE], *(known[name] for name in dict.fromkeys(names) if name != BASELINE)]
    chosen += [parse_candidate(text, where=where) for text in own]
    if not names and not own:
        raise UsageError(
            "no candidate is named", code="unknown-candidate",
            hint=f"the ladder has {', '.join(known)}; leave --ladder out for all of it",
        )  # fmt: skip
    _check_distinct(chosen)
    return tuple(chosen)


def _check_distinct(candidates: Iterable[Candidate]) -> None:
    seen: set[str] = set()
    for candidate in candidates:
        if candidate.id in seen:
            raise UsageError(f"{candidate.title} is to be priced twice", code="candidate-twice")
        seen.add(candidate.id)


def parse_candidate(text: str, *, where: str = "--candidate") -> Candidate:
    """``full_page_writes=off,wal_compression=on``: settings, and dotted keys of the spec."""
    words: dict[str, str] = {}
    for part in _NEXT_ASSIGNMENT.split(text):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            raise UsageError(
                f'{where} "{text}": "{part}" is not NAME=VALUE',
                code="bad-assignment",
                hint="for example full_page_writes=off,wal_compression=on",
            )
        words[name] = value
    base = {key: words.pop(key) for key in [*words] if key == "server.checksums"}
    change = change_of(words)
    if not change:
        raise UsageError(
            f'{where} "{text}" changes nothing that has a gain',
            code="nothing-to-compare",
            hint="server.checksums holds for both sides; name a setting besides",
        )
    return of_change(change, base=Change(spec=base))


def of_change(change: Change, *, base: Change | None = None, title: str = "") -> Candidate:
    """The candidate that ``change`` makes: class, bound and faults of the worst remedy in it."""
    remedies = [catalogue()[name] for name in _remedies_in(change)]
    worst = max(remedies, key=lambda remedy: remedy.durability_class, default=None)
    base = base or Change()
    named = title or title_of(change.over(Change(spec=base.spec)))
    return Candidate(
        id=title.replace(" = ", "=").replace(", ", ",") or _id_of(change, base),
        title=named,
        durability_class=worst.durability_class if worst else "D0",
        bound=_bound_of(worst, change),
        change=change,
        faults=faults_of([remedy.id for remedy in remedies]),
        remedy=worst.id if worst else None,
        base=base,
    )


def _id_of(change: Change, base: Change) -> str:
    """The words that ask for it, as a user writes them."""
    words = {**change.settings, **change.spec, **base.spec}
    parts = [f"{name}={value}" for name, value in words.items()]
    return ",".join(parts) or title_of(change)


def _bound_of(worst: Remedy | None, change: Change) -> str:
    if worst is None:
        return "nothing is lost"
    delay = change.settings.get("wal_writer_delay")
    if worst.id == "synchronous-commit-off" and delay:
        return worst.bound.replace("(600 ms by default)", f"(here of {delay})")
    return worst.bound


def _remedies_in(change: Change) -> list[str]:
    """Ids of the remedies above D0 that ``change`` amounts to."""
    settings, spec = change.settings, change.spec
    found = [
        remedy_id
        for name, remedy_id in (
            ("synchronous_commit", "synchronous-commit-off"),
            ("full_page_writes", "full-page-writes-off"),
            ("fsync", "fsync-off"),
        )
        if settings.get(name, "on").lower() in _OFF
    ]
    if spec.get("disk.wal", "").startswith("tmpfs"):
        found.append(_wal_in_memory(spec))
    if spec.get("workload.unlogged", "false").lower() == "true":
        found.append("unlogged-tables")
    return found


def _wal_in_memory(spec: Mapping[str, str]) -> str:
    if spec.get("standby.count", "0") == "0":
        return "wal-on-tmpfs"
    synchronous = spec.get("standby.mode", "async") in ("on", "remote_apply")
    return "wal-on-tmpfs-sync-standby" if synchronous else "wal-on-tmpfs-async-standby"


def faults_of(remedy_ids: Iterable[str]) -> tuple[str, ...]:
    """The drills that show what these remedies may lose; for none, those that a safe server is
    held to."""
    faults = [fault for remedy_id in remedy_ids for fault in FAULTS.get(remedy_id, ())]
    return tuple(dict.fromkeys(faults)) or SAFE_FAULTS
