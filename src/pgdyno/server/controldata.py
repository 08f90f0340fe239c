"""What a data directory's control file says, told by ``pg_controldata``."""

from __future__ import annotations

from pathlib import Path

from pgdyno.server.account import run_as, server_account
from pgdyno.server.installation import Installation


def control_data(installation: Installation, data_dir: Path) -> dict[str, str]:
    """What the control file says, by PostgreSQL's own names; {} if it is unreadable.

    ``Database cluster state`` is ``in production`` after a crash, ``shut down`` after a clean end.
    """
    done = run_as(server_account(), [installation.program("pg_controldata"), "-D", data_dir])
    if done.returncode != 0:
        return {}
    pairs = (line.partition(":") for line in done.stdout.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
