"""``pgdyno knee`` on a real server: the search, its run file, and what is made from that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from inline_snapshot import snapshot

from pgdyno.conduct import Silent, open_session
from pgdyno.record import RunFile, SliceKind
from pgdyno.report.page.html import render
from pgdyno.report.rows import result_rows
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.report.words.diff import diff
from pgdyno.results import load, schemas
from pgdyno.results.knee import KneeResult
from pgdyno.search._points import Aim
from pgdyno.search.knee import KneeRequest, find_knee, prepared_spec
from pgdyno.search.measuring import Measuring
from pgdyno.search.slo import parse_limits
from pgdyno.server import Cluster
from pgdyno.spec import Change, Spec, spec_from_fields

pytestmark = pytest.mark.usefixtures("short_slices")
TPCB = {"script": "tpcb-like", "scale": 1}


def sleeping(folder: Path) -> dict[str, Any]:
    """Transactions that need no core, so that a rate is what these clients have time for."""
    path = folder / "sleeping.sql"
    path.write_text("begin;\nselect pg_sleep(0.005);\nend;\n")
    return {"script": [{"file": str(path)}]}


def spec_on(cluster: Cluster, workload: Mapping[str, Any]) -> Spec:
    return spec_from_fields(
        {
            "name": "knee",
            "server": {"kind": "existing", "conninfo": cluster.conninfo.uri_without_password},
            "workload": workload,
        }
    )


def found_on(
    cluster: Cluster, path: Path, *, slo: str = "", clients: int = 4, budget_s: float = 6,
    workload: Mapping[str, Any] = TPCB,
) -> KneeResult:  # fmt: skip
    limits = parse_limits(slo) if slo else ()
    spec, group = prepared_spec(
        spec_on(cluster, workload), group=None, clients=clients, limits=limits
    )
    with open_session(spec, run=path, command="knee", spec_text="", watcher=Silent()) as session:
        result = find_knee(session, KneeRequest(group, limits, clients, budget_s))
    jsonschema.validate(json.loads(json.dumps(result.to_json())), schemas()["knee"])
    with RunFile(path) as run:
        assert load(run) == result
        assert run.ledger().balanced
    return result


def test_what_ends_a_search_is_diagnosed_with_plans(pg18: Cluster, tmp_path: Path) -> None:
    spec, path = spec_on(pg18, sleeping(tmp_path)), tmp_path / "run.db"
    with open_session(spec, run=path, command="knee", spec_text="", watcher=Silent()) as session:
        session.apply(Change())
        slice_id = session.slice(1.2, kind=SliceKind.POINT)
        measuring = Measuring(session, Aim("clients", spec.clients[0].name, Change()), 30.0)
        assert measuring.diagnosed([slice_id]) is not None
        assert measuring.diagnosed([]) is None
        session.stop_load()
    with RunFile(path) as run:
        assert run.statement_plans([slice_id])


def test_a_search_for_clients_and_what_is_made_of_its_run_file(
    pg18: Cluster, tmp_path: Path
) -> None:
    result = found_on(pg18, tmp_path / "clients.db", workload=sleeping(tmp_path))
    assert result.varied == "clients"
    assert result.curve[0].clients == 1
    assert max(point.clients for point in result.curve) <= 4
    assert all(point.tps > 0 for point in result.curve)
    if result.knee is not None:
        assert result.knee.clients in [point.clients for point in result.curve]
        assert result.highest is not None
    assert result.sustained is not None
    with RunFile(tmp_path / "clients.db") as run:
        kinds = [each.kind for each in run.slices()]
        assert kinds[-1] == "hold"
        assert set(kinds) == {"point", "hold"}
        text = "\n".join(line.text for line in summary_lines(run, 120))
        assert "tps" in text
        assert "sustained" in text
        page = render(run)
        assert "How much it takes" in page
        assert len(list(result_rows(run))) == len(result.curve)
    other = found_on(pg18, tmp_path / "other.db", clients=1, budget_s=4)
    assert other.knee is None
    assert [point.clients for point in other.curve] == [1]
    with RunFile(tmp_path / "clients.db") as a, RunFile(tmp_path / "other.db") as b:
        assert diff(a, b).a.over == snapshot("the long slice at the knee")


@pytest.mark.long
@pytest.mark.parametrize(
    ("slo", "met"),
    [("p50<1us", False), ("p50<1min", True)],
)
def test_a_search_for_a_rate(pg18: Cluster, tmp_path: Path, slo: str, met: bool) -> None:
    result = found_on(pg18, tmp_path / "rate.db", slo=slo, budget_s=8, workload=sleeping(tmp_path))
    assert result.varied == "rate"
    assert (result.knee is not None) == met
    if result.knee is None:
        assert result.sentence.startswith("no rate meets p50 < 1us")
        assert all(point.met == 0 for point in result.curve)
    else:
        assert result.knee.rate_tps in [point.rate_tps for point in result.curve]
        assert result.knee.clients is None
    with RunFile(tmp_path / "rate.db") as run:
        assert "meet" in "\n".join(line.text for line in summary_lines(run, 120))
        assert render(run)
