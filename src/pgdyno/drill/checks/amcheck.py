"""pg_amcheck of the whole database: tables, indexes, and their agreement."""

from __future__ import annotations

import subprocess

from pgdyno.drill._checking import SECONDS_MAX, CheckContext, CheckResult, CheckRule, Stage
from pgdyno.server.local.account import run_as, server_account

_CHECKS_UNIQUE = 17
"""First version whose pg_amcheck has --checkunique."""
_SHOWN = 3


def _run(context: CheckContext) -> CheckResult:
    installation = context.cluster.installation
    binary = installation.binary("pg_amcheck")
    if not binary.is_file():
        return None, f"there is no pg_amcheck in {installation.bindir}"
    installed = context.conn.execute(
        "select from pg_extension where extname = 'amcheck'"
    ).fetchone()
    if installed is None:
        return None, "this build of PostgreSQL has no amcheck"
    info = context.crashed.conninfo
    options = ["--heapallindexed", "--parent-check", "--no-password", "--jobs=2"]
    if installation.major >= _CHECKS_UNIQUE:
        options.append("--checkunique")
    connection = ["-h", info.host, "-p", str(info.port), "-U", info.user, info.database]
    try:
        done = run_as(server_account(), [binary, *options, *connection], seconds_max=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return None, f"pg_amcheck had not ended after {SECONDS_MAX} s"
    if done.returncode == 0:
        return True, f"pg_amcheck {' '.join(options[:2])} found nothing"
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


CHECK = CheckRule("amcheck", Stage.READING, _run, deep=True)
