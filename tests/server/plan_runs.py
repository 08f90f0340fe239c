"""Runs on new servers of pgdyno's, diagnosed with a look at the plans of their statements."""

from __future__ import annotations

from pathlib import Path

from pgdyno.conduct import Silent, open_session
from pgdyno.investigate.run import run_spec
from pgdyno.record import RunFile
from pgdyno.record.finding import Finding
from pgdyno.spec import spec_from_fields

SECONDS = "1s"


def diagnosed(
    directory: Path,
    script: str,
    setup: str,
    *,
    settings: dict[str, str] | None = None,
    protocol: str = "prepared",
    clients: int = 2,
    superuser: bool = True,
) -> list[Finding]:
    """Run a script on a new server; return the findings, the first one first."""
    (directory / "setup.sql").write_text(setup)
    (directory / "planted.sql").write_text(script)
    spec = spec_from_fields(
        {
            "name": "planted",
            "server": {"kind": "embedded", "settings": settings or {}},
            "workload": {
                "script": [{"file": str(directory / "planted.sql")}],
                "setup": str(directory / "setup.sql"),
                "superuser": superuser,
            },
            "clients": [{"name": "web", "count": clients}],
            "load": {"hold": SECONDS, "protocol": protocol},
        }
    )
    path = directory / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        run_spec(session)
    with RunFile(path) as run:
        return run.findings()


def of(findings: list[Finding], name: str) -> Finding:
    (found,) = [each for each in findings if each.id == name]
    return found
