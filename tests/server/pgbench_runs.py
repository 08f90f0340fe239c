"""Helper of the tests that compare with pgbench: the same script by pgbench, and by the engine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from engine_runs import config

from patience import wait_until
from pgdyno import _engine
from pgdyno.server import Cluster

if TYPE_CHECKING:
    from pgdyno._engine import ErrorRow


class Pair:
    """Runs scripts on one server: clients × transactions each, from one seed, in one thread."""

    def __init__(self, cluster: Cluster, folder: Path, seed: int = 20261121) -> None:
        self.cluster = cluster
        self.folder = folder
        self.seed = seed

    def pgbench(
        self,
        script: str,
        *,
        protocol: str = "simple",
        clients: int = 1,
        transactions: int = 1,
        defined: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """By the cluster's own pgbench."""
        file = self.folder / "script.sql"
        file.write_text(script, encoding="utf-8", newline="")
        conninfo = self.cluster.conninfo
        return subprocess.run(
            [
                str(self.cluster.installation.bindir / "pgbench"),
                *("-n", "-j1", f"-c{clients}", f"-t{transactions}", f"-M{protocol}"),
                *("-h", conninfo.host, "-p", str(conninfo.port), "-U", conninfo.user),
                f"--random-seed={self.seed}",
                *(f"-D{name}={value}" for name, value in (defined or {}).items()),
                f"-f{file}",
                conninfo.database,
            ],
            capture_output=True,
            text=True,
            check=False,
        )

    def engine(
        self,
        script: str,
        *,
        protocol: str = "simple",
        clients: int = 1,
        transactions: int = 1,
        defined: dict[str, str] | None = None,
        threads: int = 1,
    ) -> tuple[int, list[ErrorRow]]:
        """By the engine: how many transactions were done, and the errors. Raises ScriptError."""
        group = {
            "name": "g",
            "clients": clients,
            "transactions": transactions,
            "variables": defined or {},
            "scripts": [{"name": "script", "text": script, "file": "script.sql"}],
        }
        made = json.loads(config(self.cluster.conninfo, script))
        made |= {"seed": self.seed, "threads": threads, "protocol": protocol, "groups": [group]}
        load = _engine.Load(json.dumps(made))
        load.start()
        wait_until(lambda: load.state() == "stopped", lambda: f"over: {load.poll()}")
        done = ended = 0
        errors: list[ErrorRow] = []
        for interval in load.poll():
            done += sum(row["done"] for row in interval["scripts"])
            ended += sum(row["done"] + row["failed"] for row in interval["scripts"])
            errors += interval["errors"]
        assert ended == clients * transactions, errors
        return done, errors
