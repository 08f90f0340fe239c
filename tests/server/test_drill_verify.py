"""Verification after a fault: each check sees the damage that it is there for, and nothing else.

A clean crash is the null control; damage done by hand to a stopped cluster is the positive one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from engine_runs import config as load_config

from pgdyno._engine import Load, builtin_scripts
from pgdyno.conduct.config import witness_statement
from pgdyno.drill.model import Verified
from pgdyno.drill.verify import Crashed, verify
from pgdyno.drill.witnesses import prepare
from pgdyno.record import read_acks
from pgdyno.server import Cluster, Installation
from pgdyno.workload import Tables, WeightedScript, Workload
from pgdyno.workload.pgbench import prepare_pgbench

pytestmark = pytest.mark.server

TPCB = Workload("t", [WeightedScript("t", builtin_scripts()["tpcb-like"], "t", 1)], Tables.PGBENCH)


@dataclass
class Place:
    """A loaded cluster, and a folder for ledgers."""

    cluster: Cluster
    folder: Path

    def crash(self, fault: Callable[[], object], *, seconds: float = 0.5) -> Crashed:
        """Load it, let the fault strike, and say what was known before."""
        with psycopg.connect(**self.cluster.conninfo.kwargs(), autocommit=True) as conn:
            witnesses = prepare(conn, {"g": TPCB})
        label = time.time_ns()
        directory = self.folder / str(label)
        made = json.loads(load_config(self.cluster.conninfo, TPCB.scripts[0].text))
        made["acks"] = {"directory": str(directory), "label": label}
        made["groups"][0]["witness"] = witness_statement(label, 0)
        load = Load(json.dumps(made))
        load.start()
        time.sleep(seconds)
        fault()
        cut_ns = time.monotonic_ns()
        load.stop(1000)
        return Crashed(self.cluster, read_acks(directory), cut_ns, witnesses)


@pytest.fixture(params=[18, 15])
def place(
    request: pytest.FixtureRequest,
    installation_of: Callable[[int], Installation],
    tmp_path: Path,
) -> Iterator[Place]:
    """A cluster of its own with pgbench's tables."""
    with Cluster.create(installation_of(request.param), {}, checksums=True) as cluster:
        prepare_pgbench(cluster.conninfo, 1, lambda *_: None)
        yield Place(cluster, tmp_path)


def checks_of(found: Verified) -> dict[str, bool | None]:
    return {check.name: check.passed for check in found.checks}


def test_a_clean_crash_is_clean(place: Place) -> None:
    found = verify(place.crash(place.cluster.kill))
    assert (found.outcome, found.seen_by, found.server_said) == ("clean", "", "")
    assert all(check.passed for check in found.checks), found.checks
    assert found.ledger is not None
    assert found.ledger.acked > 10
    assert found.ledger.lost == found.ledger.inconsistent == 0
    assert not place.cluster.running
