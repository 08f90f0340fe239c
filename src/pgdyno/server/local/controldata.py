"""What a data directory's control file says, told by ``pg_controldata``."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from pgdyno.server.local._installation import Installation
from pgdyno.server.local.account import run_as, server_account
from pgdyno.server.lsn import parse_lsn

PAGE_BYTES = 8192
"""As PostgreSQL is built unless its builder says otherwise."""
_S_MAX = 30.0
_DAMAGED = "results below are untrustworthy"


@dataclass(frozen=True)
class ControlData:
    """A control file. One that cannot be read says nothing: each value is the one given here."""

    state: str = ""
    """Of the cluster, in PostgreSQL's words."""
    page_bytes: int = PAGE_BYTES
    checksums: bool | None = None
    """True if pages have checksums."""
    redo_lsn: int = 0
    """Where the redo of the latest checkpoint begins in the WAL."""
    redo_segment: str | None = None
    """The WAL's file with that place."""
    timeline: int = 1

    @property
    def in_production(self) -> bool:
        """True if the server runs, or ran last and was not shut down."""
        return self.state == "in production"

    @property
    def shut_down(self) -> bool:
        """True if the server, a standby perhaps, ended in order."""
        return self.state in ("shut down", "shut down in recovery")


def control_data(installation: Installation, data_dir: Path) -> ControlData:
    """What the control file of ``data_dir`` says."""
    command: list[str | Path] = [installation.binary("pg_controldata"), "-D", data_dir]
    try:
        done = run_as(server_account(), command, seconds_max=_S_MAX)
    except subprocess.TimeoutExpired:  # A pipe in place of the file, say.
        return ControlData()
    if done.returncode != 0 or _DAMAGED in done.stdout + done.stderr:
        return ControlData()
    pairs = (line.partition(":") for line in done.stdout.splitlines())
    said = {name.strip(): value.strip() for name, _, value in pairs}
    return ControlData(
        state=said["Database cluster state"],
        page_bytes=int(said["Database block size"]),
        checksums=said["Data page checksum version"] != "0",
        redo_lsn=parse_lsn(said["Latest checkpoint's REDO location"]),
        redo_segment=said["Latest checkpoint's REDO WAL file"],
        timeline=int(said["Latest checkpoint's TimeLineID"]),
    )
