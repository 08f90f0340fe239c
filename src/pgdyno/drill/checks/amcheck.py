"""pg_amcheck over the whole database: tables, indexes, and that each finds what the other holds."""

from __future__ import annotations

from pgdyno.drill.checking import CheckRule, Scene, Seen, Stage
from pgdyno.server.account import run_as, server_account

_CHECKS_UNIQUE = 17
"""The first version whose pg_amcheck knows --checkunique."""
_SHOWN = 3


def _look(scene: Scene) -> Seen:
    installation = scene.cluster.installation
    program = installation.program("pg_amcheck")
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
    done = run_as(server_account(), [program, *options, *way])
    said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode == 0:
        return True, f"pg_amcheck {' '.join(options[:2])} found nothing"
    return False, "; ".join(said[:_SHOWN]) or f"pg_amcheck ended with {done.returncode}"


CHECK = CheckRule("amcheck", Stage.READING, _look, deep=True)
