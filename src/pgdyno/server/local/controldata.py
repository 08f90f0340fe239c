"""The control file of a data directory, as ``pg_controldata`` prints it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from msgspec import Struct

from pgdyno.server.local._installation import Installation
from pgdyno.server.local.account import run_as, server_account
from pgdyno.server.lsn import parse_lsn

PAGE_BYTES = 8192
"""PostgreSQL's default block size."""
_S_MAX = 30.0
_DAMAGED = "results below are untrustworthy"


class ControlData(Struct, frozen=True):
    """A control file; an unreadable one has the defaults given here."""

    state: str = ""
    """Cluster state, in PostgreSQL's words."""
    page_bytes: int = PAGE_BYTES
    checksums: bool | None = None
    """True if pages have checksums."""
    redo_lsn: int = 0
    """Redo location of the latest checkpoint."""
    redo_segment: str | None = None
    """WAL file that contains the redo location."""
    timeline: int = 1

    @property
    def in_production(self) -> bool:
        """True if the server runs, or was not shut down."""
        return self.state == "in production"

    @property
    def shut_down(self) -> bool:
        """True if the server, perhaps a standby, was shut down cleanly."""
        return self.state in ("shut down", "shut down in recovery")


def control_data(installation: Installation, data_dir: Path) -> ControlData:
    """Return the contents of the control file of ``data_dir``. Raises SetupError for a build
    without pg_controldata."""
    command: list[str | Path] = [installation.program("pg_controldata"), "-D", data_dir]
    try:
        done = run_as(server_account(), command, seconds_max=_S_MAX)
    except subprocess.TimeoutExpired:  # For example a pipe in place of the file.
        return ControlData()
    if done.returncode != 0 or _DAMAGED in done.stdout + done.stderr:
        return ControlData()
    pairs = (line.partition(":") for line in done.stdout.splitlines())
    fields = {name.strip(): value.strip() for name, _, value in pairs}
    return ControlData(
        state=fields["Database cluster state"],
        page_bytes=int(fields["Database block size"]),
        checksums=fields["Data page checksum version"] != "0",
        redo_lsn=parse_lsn(fields["Latest checkpoint's REDO location"]),
        redo_segment=fields["Latest checkpoint's REDO WAL file"],
        timeline=int(fields["Latest checkpoint's TimeLineID"]),
    )
