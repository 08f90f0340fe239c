"""What is priced: the ladder from all safe to all lost, as data, and candidates of the user's own.

A candidate is a change for the gain and the same change in a spec for the drills. What it may lose
and which drills show it is the catalogue's word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pgdyno.dimension import change_of, spec_with, title_of
from pgdyno.errors import UsageError
from pgdyno.remedy import Assessment, Circumstances, assess, circumstances
from pgdyno.spec import Change, Spec

_NEXT_ASSIGNMENT = re.compile(r",(?=\s*[A-Za-z_][A-Za-z0-9_.]*\s*=)")
BASELINE = "all-on"
WAL_TMPFS = "tmpfs:2GB"


@dataclass(frozen=True)
class Candidate:
    """One line of the price list."""

    id: str
    title: str
    assessment: Assessment
    """What the catalogue knows of its change: class, bound, drills."""
    base: Change = field(default_factory=Change)
    """What both sides of its trial have besides the spec."""

    @property
    def change(self) -> Change:
        """What the other side has different."""
        return self.assessment.change

    @property
    def remedy(self) -> str | None:
        """The remedy that may lose most of what it amounts to."""
        remedy = self.assessment.remedy
        return remedy.id if remedy else None

    @property
    def is_baseline(self) -> bool:
        """Whether nothing is changed, so that there is no gain to measure."""
        return not self.change

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


def _rung(
    candidate_id: str,
    server: Circumstances,
    *,
    settings: Mapping[str, str] | None = None,
    spec: Mapping[str, str] | None = None,
    base: Mapping[str, str] | None = None,
) -> Candidate:
    change, both = Change(settings=settings or {}, spec=spec or {}), Change(spec=base or {})
    return replace(of_change(change, server, base=both), id=candidate_id)


def _asynchronous(delay: str, server: Circumstances) -> Candidate:
    settings = {"synchronous_commit": "off", "wal_writer_delay": delay}
    return _rung(f"async-{delay}", server, settings=settings)


def ladder(spec: Spec | None = None) -> tuple[Candidate, ...]:
    """The default price list, from losing nothing to losing all, for a server as ``spec`` (or its
    defaults) asks for it."""
    server = circumstances(spec or Spec())
    off = {"full_page_writes": "off"}
    one = {"disk.wal": WAL_TMPFS, "standby.count": "1"}
    return (
        Candidate(BASELINE, "all on", assess(Change(), server)),
        _rung("commit-delay", server, settings={"commit_delay": "100"}),
        *(_asynchronous(delay, server) for delay in ("10ms", "200ms", "2s")),
        _rung("fpw-off", server, settings=off, base={"server.checksums": "true"}),
        _rung("fpw-off-no-checksums", server, settings=off, base={"server.checksums": "false"}),
        _rung("wal-tmpfs", server, spec={"disk.wal": WAL_TMPFS}),
        _rung("wal-tmpfs-async", server, spec={**one, "standby.mode": "async"}),
        _rung("wal-tmpfs-sync", server, spec={**one, "standby.mode": "on"}),
        _rung("unlogged", server, spec={"workload.unlogged": "true"}),
        _rung("fsync-off", server, settings={"fsync": "off"}),
    )


def choose(
    asked: Iterable[str] | None,
    own: Iterable[str],
    spec: Spec | None = None,
    *,
    where: str = "--candidate",
) -> tuple[Candidate, ...]:
    """The rungs named in ``asked`` (``None``: all, or none beside ``own``), then ``own``.

    They are for a server as ``spec`` asks for it. ``where`` says where ``own`` was given. The
    baseline is always the first. Raises :class:`UsageError` for what is not on the ladder, for an
    empty candidate and for one given twice.
    """
    known = {rung.id: rung for rung in ladder(spec)}
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
    chosen += [parse_candidate(text, spec, where=where) for text in own]
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


def parse_candidate(
    text: str, spec: Spec | None = None, *, where: str = "--candidate"
) -> Candidate:
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
    return of_change(change, circumstances(spec or Spec()), base=Change(spec=base))


def of_change(
    change: Change, server: Circumstances, *, base: Change | None = None, title: str = ""
) -> Candidate:
    """The candidate that ``change`` makes on ``server`` with ``base`` in force."""
    base = base or Change()
    named = title or title_of(change.over(Change(spec=base.spec)))
    return Candidate(
        id=title.replace(" = ", "=").replace(", ", ",") or _id_of(change, base),
        title=named,
        assessment=assess(change, server.under(base.without(change))),
        base=base,
    )


def _id_of(change: Change, base: Change) -> str:
    """The words that ask for it, as a user writes them."""
    words = {**change.settings, **change.spec, **base.spec}
    parts = [f"{name}={value}" for name, value in words.items()]
    return ",".join(parts) or title_of(change)
