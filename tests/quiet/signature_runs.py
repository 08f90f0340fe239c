"""Real runs for the tests of signatures: a spec carried out on a server, and its findings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgdyno.conduct import Silent, Watcher, carry_out, open_session
from pgdyno.diagnose import Finding, diagnose
from pgdyno.record import RunFile
from pgdyno.spec import spec_from_fields

HOLD = "5s"


def carried_out(
    folder: Path,
    *,
    script: str | Path = "tpcb-like",
    setup: Path | None = None,
    scale: int = 1,
    clients: int = 8,
    pool: int | None = None,
    arrival: Mapping[str, Any] | None = None,
    ramp: str = "1s",
    hold: str = HOLD,
    version: int = 18,
    settings: Mapping[str, str] | None = None,
    events: list[dict[str, Any]] | None = None,
    disk: Mapping[str, str] | None = None,
    standby: Mapping[str, Any] | None = None,
    server: Mapping[str, Any] | None = None,
    pooler: Mapping[str, Any] | None = None,
    groups: list[dict[str, Any]] | None = None,
    protocol: str = "prepared",
    watcher: Watcher | None = None,
) -> dict[str, Finding]:
    """Findings by id on a run of this load, on an embedded server of its own or on ``server``."""
    group: dict[str, Any] = {"name": "web", "count": clients}
    if pool is not None:
        group["pool"] = {"max": pool}
    if arrival is not None:
        group["arrival"] = dict(arrival)
    spec = spec_from_fields(
        {
            "name": "signature",
            "server": server or {"version": version, "settings": dict(settings or {})},
            "workload": {
                "script": script if isinstance(script, str) else [{"file": str(script)}],
                "scale": scale,
                **({} if setup is None else {"setup": str(setup)}),
            },
            "clients": groups or [group],
            "load": {"ramp": ramp, "hold": hold, "protocol": protocol},
            "events": events or [],
            "disk": dict(disk or {}),
            "standby": dict(standby or {}),
            "pooler": dict(pooler or {}),
        }
    )
    path = folder / "run.db"
    with open_session(
        spec, run=path, command="run", spec_text="", watcher=watcher or Silent()
    ) as session:
        slice_ids = carry_out(session)
    with RunFile(path) as run:
        assert run.ledger().balanced
        return {finding.id: finding for finding in diagnose(run, slice_ids).findings}


def status(findings: Mapping[str, Finding]) -> dict[str, str]:
    """Each finding's status, for messages that tell all when a test fails."""
    return {finding.id: f"{finding.status}: {finding.sentence}" for finding in findings.values()}
