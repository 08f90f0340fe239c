"""pg_amcheck: tables, indexes, and their agreement."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.local._installation import Installation
from pgdyno.server.local.account import run_as, server_account

_CHECKS_UNIQUE = 17
"""First version whose pg_amcheck has --checkunique."""
_SHOWN = 3
_OPTIONS = ["--heapallindexed", "--parent-check"]


def amcheck(
    installation: Installation, info: ConnInfo, *, seconds_max: float, more: Sequence[str] = ()
) -> tuple[bool | None, str]:
    """Return whether a whole database passed (``None``: it could not be checked), and a
    description."""
    binary = installation.binary("pg_amcheck")
    if not binary.is_file():
        return None, f"there is no pg_amcheck in {installation.bindir}"
    options = [*_OPTIONS, "--no-password", "--jobs=2", *more]
    if installation.major >= _CHECKS_UNIQUE:
        options.append("--checkunique")
    connection = ["-h", info.host, "-p", str(info.port), "-U", info.user, info.database]
    try:
        done = run_as(server_account(), [binary, *options, *connection], seconds_max=seconds_max)
    except subprocess.TimeoutExpired:
        return None, f"pg_amcheck had not ended after {seconds_max:g} s"
    if done.returncode == 0:
        return True, f"pg_amcheck {' '.join(_OPTIONS)} found nothing"
    messages = _messages(done.stdout + done.stderr)
    return False, "; ".join(messages[:_SHOWN]) or f"pg_amcheck exited with {done.returncode}"


def _messages(text: str) -> list[str]:
    """Return the messages: a line that names the object, joined with the indented lines below."""
    found: list[str] = []
    for line in filter(str.strip, text.splitlines()):
        if found and line[0].isspace():
            found[-1] += " " + line.strip()
        else:
            found.append(line.strip())
    return found
