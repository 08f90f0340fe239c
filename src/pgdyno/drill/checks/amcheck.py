"""pg_amcheck over the whole database: tables, indexes, and that each finds what the other holds."""

from __future__ import annotations

import subprocess

from pgdyno.drill._checking import SECONDS_MAX, CheckRule, Scene, Seen, Stage
from pgdyno.server.local.account import run_as, server_account

_CHECKS_UNIQUE = 17
"""The first version whose pg_amcheck knows --checkunique."""
_SHOWN = 3


def _look(scene: Scene) -> Seen:
    installation = scene.cluster.installation
    program = installation.binary("pg_amcheck")
    if not program.is_file():
        return None, f"there is no pg_amcheck in {installation.bindir}"
    has = scene.conn.execute("select from pg_extension where extname = 'amcheck'").fetchone()
    if has is None:
        return None, "this build of PostgreSQL has no amcheck"
    info = scene.crashed.conninfo
    options = ["--heapallindexed", "--parent-check", "--no-password", "--jobs=2"]
    if installation.major >= _CHECKS_UNIQUE:
        options.append("--checkunique")
    way = ["-h", info.host, "-p", str(info.port), "-U", info.user, info.database]
    try:
        done = run_as(server_account(), [program, *options, *way], seconds_max=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return None, f"pg_amcheck had not ended after {SECONDS_MAX} s"
    if done.returncode == 0:
        return True, f"pg_amcheck {' '.join(options[:2])} found nothing"
    said = _messages(done.stdout + done.stderr)
    return False, "; ".join(said[:_SHOWN]) or f"pg_amcheck ended with {done.returncode}"


def _messages(text: str) -> list[str]:
    """What it found: a line for the place, and what is wrong there indented below it."""
    found: list[str] = []
    for line in filter(str.strip, text.splitlines()):
        if found and line[0].isspace():
            found[-1] += " " + line.strip()
        else:
            found.append(line.strip())
    return found


CHECK = CheckRule("amcheck", Stage.READING, _look, deep=True)
