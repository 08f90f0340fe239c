"""A core of the whole on the oldest and the newest PostgreSQL found; ``make test-versions`` runs
the server part on every version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdyno.conduct import Silent, open_session
from pgdyno.probe._link import queries_for
from pgdyno.record import RunFile
from pgdyno.server import Cluster, Installation, discover_installations, server_facts
from pgdyno.server.connecting.facts import read_build
from pgdyno.spec import spec_from_fields

pytestmark = pytest.mark.server


@pytest.fixture(scope="module", params=["oldest", "newest"])
def edge(request: pytest.FixtureRequest) -> Installation:
    found = sorted(discover_installations(), key=lambda each: each.version_num)
    if request.param == "oldest" and found[0].major == found[-1].major:
        pytest.skip("only one version of PostgreSQL on this machine")
    return found[0 if request.param == "oldest" else -1]


@pytest.fixture(scope="module")
def cluster(edge: Installation) -> Iterator[Cluster]:
    with Cluster.create(edge) as running:
        yield running


def test_it_starts_and_tells_its_build(edge: Installation, cluster: Cluster) -> None:
    facts = server_facts(cluster.conninfo)
    assert facts["version_num"] == edge.version_num
    build = read_build(cluster.conninfo)
    assert build.version.startswith(edge.version)
    assert build.flags["CFLAGS"]
    shared = build.settings["shared_buffers"]
    assert (shared.shown, shared.value, shared.unit) == ("128MB", "16384", "8kB")


def test_a_load_is_measured_with_every_probe(edge: Installation, tmp_path: Path) -> None:
    spec = spec_from_fields(
        {
            "server": {"bindir": str(edge.bindir)},
            "workload": {"scale": 1},
            "clients": [{"name": "web", "count": 2, "think": "20ms"}],
            "load": {"max_other_programs": 1, "seed": 3},
        }
    )
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        session.start_load()
        session.wait_connected()
        slice_id = session.slice(1.0, kind="run")
        session.stop_load()
        assert not set(session.probes.missing) & queries_for(edge.major).keys()
    with RunFile(path) as run:
        assert run.ledger().balanced
        assert run.ledger().done > 0
        for table in ("metric_wal", "metric_table", "metric_process"):
            assert run.series(table, [slice_id])["at_ms"].size, table
