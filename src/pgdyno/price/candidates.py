"""What is priced: the ladder from all safe to all lost, as data, and candidates of the user's own.

A candidate is a change for the gain, the same change in a spec for the drills, and the faults that
show its price. What it may lose, as PostgreSQL's documentation has it, is the catalogue's word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pgdyno.errors import UsageError
from pgdyno.remedy import DurabilityClass, Remedy, catalogue
from pgdyno.spec import Change, Spec, spec_from_fields
from pgdyno.spec.dotted import with_keys

# Dotted keys of the spec begin with one of its tables; any other name is a setting's, which may
# have a dot too (pg_stat_statements.track).
_SPEC_TABLES = {"server", "disk", "standby", "workload", "load", "clients"}
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


def spec_with(spec: Spec, change: Change) -> Spec:
    """``spec`` as if it had ``change`` in it. Raises :class:`UsageError`."""
    fields = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    fields = with_keys(fields, change.spec)
    server = fields.setdefault("server", {})
    server["settings"] = {**server.get("settings", {}), **change.settings}
    for group in fields["clients"]:
        name = group["name"]
        if name in change.clients:
            group["count"] = change.clients[name]
        if name in change.pool_max:
            _set_pool(group, change.pool_max[name])
    return spec_from_fields(fields)


def _set_pool(group: dict[str, Any], size: int | None) -> None:
    if size is None:
        group.pop("pool", None)
    else:
        group["pool"] = {**group.get("pool", {}), "max": size}


def _of(
    candidate_id: str,
    remedy_id: str,
    *,
    settings: Mapping[str, str] | None = None,
    spec: Mapping[str, str] | None = None,
    base: Mapping[str, str] | None = None,
    title: str | None = None,
    bound: str | None = None,
) -> Candidate:
    """A candidate that a remedy of the catalogue stands behind."""
    remedy = catalogue()[remedy_id]
    change = Change(settings=settings or {}, spec=spec or {})
    return Candidate(
        id=candidate_id,
        title=title or remedy.title(change),
        durability_class=remedy.durability_class,
        bound=bound or remedy.bound,
        change=change,
        faults=faults_of([remedy_id]),
        remedy=remedy_id,
        base=Change(spec=base or {}),
    )


def _asynchronous(candidate_id: str, delay: str, bound: str) -> Candidate:
    return _of(
        candidate_id,
        "synchronous-commit-off",
        settings={"synchronous_commit": "off", "wal_writer_delay": delay},
        title=f"synchronous_commit = off, wal_writer_delay = {delay}",
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
        _of("commit-delay", "commit-delay", settings={"commit_delay": "100"},
            title="commit_delay = 100us"),
        _asynchronous("async-10ms", "10ms", "30 ms"),
        _asynchronous("async-200ms", "200ms", "600 ms"),
        _asynchronous("async-2s", "2s", "6 s"),
        _of("fpw-off", "full-page-writes-off", settings={"full_page_writes": "off"},
            base={"server.checksums": "true"}, title="full_page_writes = off, with checksums"),
        _of("fpw-off-no-checksums", "full-page-writes-off",
            settings={"full_page_writes": "off"}, base={"server.checksums": "false"},
            title="full_page_writes = off, no checksums"),
        _of("wal-tmpfs", "wal-on-tmpfs", spec={"disk.wal": WAL_TMPFS},
            title="WAL on tmpfs"),
        _of("wal-tmpfs-async", "wal-on-tmpfs-async-standby",
            spec={"disk.wal": WAL_TMPFS, "standby.count": "1", "standby.mode": "async"},
            title="WAL on tmpfs, asynchronous standby"),
        _of("wal-tmpfs-sync", "wal-on-tmpfs-sync-standby",
            spec={"disk.wal": WAL_TMPFS, "standby.count": "1", "standby.mode": "on"},
            title="WAL on tmpfs, synchronous standby"),
        _of("unlogged", "unlogged-tables", spec={"workload.unlogged": "true"},
            title="unlogged tables"),
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
    settings: dict[str, str] = {}
    keys: dict[str, str] = {}
    for part in _NEXT_ASSIGNMENT.split(text):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            raise UsageError(
                f'{where} "{text}": "{part}" is not NAME=VALUE',
                code="bad-assignment",
                hint="for example full_page_writes=off,wal_compression=on",
            )
        table, dot, _ = name.partition(".")
        (keys if dot and table in _SPEC_TABLES else settings)[name] = value
    base = {key: keys.pop(key) for key in [*keys] if key == "server.checksums"}
    change = Change(settings=settings, spec=keys)
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
    titled = {**change.settings, **change.spec, **base.spec}
    parts = [f"{name} = {value}" for name, value in titled.items()]
    parts += [f"pool of {size or 'any size'}" for size in change.pool_max.values()]
    name = title or ", ".join(parts)
    return Candidate(
        id=name.replace(" = ", "=").replace(", ", ","),
        title=name,
        durability_class=worst.durability_class if worst else "D0",
        bound=_bound_of(worst, change),
        change=change,
        faults=faults_of([remedy.id for remedy in remedies]),
        remedy=worst.id if worst else None,
        base=base,
    )


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
