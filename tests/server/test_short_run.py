"""Modules that a short run loads: each room that it has no use for costs time at every start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pgdyno.server import Cluster

pytestmark = [pytest.mark.server, pytest.mark.alike]
NOT_USED = (
    *("check", "compare", "diagnose", "disk", "drill", "front", "govern", "live", "looks"),
    *("price", "remedy", "rules", "scenario", "search", "vacuumplan"),
    *("conduct._embedded", "dimension.kinds.disks", "pooler.kinds", "report.charts"),
    *("report.page", "server.local.snapshots", "server.replication", "workload.setup"),
)
"""Rooms, and rooms or modules within rooms."""
HEAVY = (
    *("bokeh", "email", "http.client", "jinja2", "numpy", "rich", "scipy"),
    *("urllib.request", "zipfile"),
)


def test_a_run_of_one_transaction_loads_no_room_that_it_does_not_use(
    pg: Cluster, tmp_path: Path
) -> None:
    uri = pg.conninfo.uri_without_password
    words = ["pgdyno", "run", "select-only", "-c", "1", "-t", "1", "-q", uri]
    code = (
        f"import sys; sys.argv = {words}\n"
        "from pgdyno.cli import _status; from pgdyno.cli.metadata import stand_in\n"
        "stand_in(); status = _status()\n"
        "print(*sys.modules, file=sys.stderr); sys.exit(status)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode in (0, 4), done.stderr
    loaded = done.stderr.splitlines()[-1].split()
    assert "pgdyno.report.views.run" in loaded
    unused = (*(f"pgdyno.{each}" for each in NOT_USED), *HEAVY)
    assert [name for name in loaded if f"{name}.".startswith(tuple(f"{u}." for u in unused))] == []
    views = [name for name in loaded if name.startswith("pgdyno.report.views.")]
    assert views == ["pgdyno.report.views.run"]
