"""Candidates of a price list: the default list, called the ladder, and the user's own candidates.

A candidate is a change: a trial measures its gain, and drills start servers with the change in
their spec. The catalogue of remedies defines what it may lose and the drills that show it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from pgdyno.dimension import change_of, spec_with, title_of
from pgdyno.errors import UsageError
from pgdyno.remedy import Assessment, Circumstances, assess, circumstances
from pgdyno.spec import Change, Spec

_NEXT_ASSIGNMENT = re.compile(r",(?=\s*[A-Za-z_][A-Za-z0-9_.]*\s*=)")
BASELINE = "all-on"
WAL_TMPFS = "tmpfs:2GB"


class Candidate(Struct, frozen=True):
    """An entry of the price list."""

    id: str
    title: str
    assessment: Assessment
    """The catalogue's assessment of its change: class, bound, drills."""
    base: Change = field(default_factory=Change)
    """The changes of both sides of its trial to the spec."""

    @property
    def change(self) -> Change:
        """The difference between the sides of its trial."""
        return self.assessment.change

    @property
    def remedy(self) -> str | None:
        """The id of its remedy that may lose most; ``None`` if the catalogue has none."""
        remedy = self.assessment.remedy
        return remedy.id if remedy else None

    @property
    def is_baseline(self) -> bool:
        """True if it changes nothing, so that there is no gain to measure."""
        return not self.change

    def in_force(self) -> Change:
        """Return the difference of the changed side from the spec."""
        return self.change.over(self.base)

    def spec(self, spec: Spec) -> Spec:
        """Return ``spec`` with the candidate in it, for a drill's server."""
        return spec_with(spec, self.in_force())


def _entry(
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
    return _entry(f"async-{delay}", server, settings=settings)


def ladder(spec: Spec | None = None) -> tuple[Candidate, ...]:
    """Return the default list, from losing nothing to losing everything, for a server as ``spec``
    defines it (or the defaults)."""
    server = circumstances(spec or Spec())
    off = {"full_page_writes": "off"}
    one = {"disk.wal": WAL_TMPFS, "standby.count": "1"}
    return (
        Candidate(BASELINE, "all on", assess(Change(), server)),
        _entry("commit-delay", server, settings={"commit_delay": "100"}),
        *(_asynchronous(delay, server) for delay in ("10ms", "200ms", "2s")),
        _entry("fpw-off", server, settings=off, base={"server.checksums": "true"}),
        _entry("fpw-off-no-checksums", server, settings=off, base={"server.checksums": "false"}),
        _entry("wal-tmpfs", server, spec={"disk.wal": WAL_TMPFS}),
        _entry("wal-tmpfs-async", server, spec={**one, "standby.mode": "async"}),
        _entry("wal-tmpfs-sync", server, spec={**one, "standby.mode": "on"}),
        _entry("unlogged", server, spec={"workload.unlogged": "true"}),
        _entry("fsync-off", server, settings={"fsync": "off"}),
    )


def choose(
    names: Iterable[str] | None,
    own: Iterable[str],
    spec: Spec | None = None,
    *,
    where: str = "--candidate",
) -> tuple[Candidate, ...]:
    """Return the baseline, the entries of the ladder called ``names``, and the user's ``own``.

    ``names`` is ``None`` for the whole ladder, or for none of it if there are own candidates.
    ``spec`` defines the server; ``where`` is the option or key with ``own``, for messages. Raises
    :class:`UsageError` for a name that is not on the ladder, an empty candidate and a duplicate.
    """
    known = {entry.id: entry for entry in ladder(spec)}
    own = [*own]
    wanted = _names_on_ladder(names, known) if names is not None else [] if own else [*known]
    if not wanted and not own:
        raise UsageError(
            "no candidate is named", code="unknown-candidate",
            hint=f"the ladder has {', '.join(known)}; leave --ladder out for all of it",
        )  # fmt: skip
    chosen = [known[name] for name in dict.fromkeys((BASELINE, *wanted))]
    chosen += [parse_candidate(text, spec, where=where) for text in own]
    _check_distinct(chosen)
    return tuple(chosen)


def _names_on_ladder(names: Iterable[str], known: Collection[str]) -> list[str]:
    stripped = [name.strip() for name in names if name.strip()]
    for name in stripped:
        if name not in known:
            raise UsageError(
                f'"{name}" is not on the ladder', code="unknown-candidate",
                hint=f"the ladder has {', '.join(known)};"
                " other candidates are given with --candidate",
            )  # fmt: skip
    return stripped


def _check_distinct(candidates: Iterable[Candidate]) -> None:
    seen: set[str] = set()
    for candidate in candidates:
        if candidate.id in seen:
            raise UsageError(f"{candidate.title} is given twice", code="candidate-twice")
        seen.add(candidate.id)


def parse_candidate(
    text: str, spec: Spec | None = None, *, where: str = "--candidate"
) -> Candidate:
    """Parse ``full_page_writes=off,wal_compression=on``: settings, and dotted keys of the spec."""
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
            hint="server.checksums applies to both sides; add a setting",
        )
    return of_change(change, circumstances(spec or Spec()), base=Change(spec=base))


def of_change(
    change: Change, server: Circumstances, *, base: Change | None = None, title: str = ""
) -> Candidate:
    """Return the candidate for ``change`` on ``server`` with ``base`` active."""
    base = base or Change()
    shown = title or title_of(change.over(Change(spec=base.spec)))
    return Candidate(
        id=title.replace(" = ", "=").replace(", ", ",") or _id_of(change, base),
        title=shown,
        assessment=assess(change, server.under(base.without(change))),
        base=base,
    )


def _id_of(change: Change, base: Change) -> str:
    """Return its settings and keys as a user writes them."""
    words = {**change.settings, **change.spec, **base.spec}
    parts = [f"{name}={value}" for name, value in words.items()]
    return ",".join(parts) or title_of(change)
