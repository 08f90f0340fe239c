"""The metrics endpoint: what it answers during a run, that it agrees with the run file, that a real
Prometheus reads it, and that the dashboard has data."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from patience import wait_until
from pgdyno.conduct import Silent, carry_out, open_session
from pgdyno.errors import SetupError, UsageError
from pgdyno.investigate.run import run_spec
from pgdyno.live import offering_metrics, open_endpoint
from pgdyno.record import RunFile
from pgdyno.server import Cluster, connect_plain
from pgdyno.spec import spec_from_fields
from pgdyno.spec.address import Address, parse_address
from pgdyno.spec.age import STOP_AGE

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana" / "pgdyno.json"
LOADGEN = {
    *("pgloadgen_nconns", "pgloadgen_query_latency_us", "pgloadgen_query_latency_max_us"),
    *("pgloadgen_nqueries_started", "pgloadgen_nqueries_done", "pgloadgen_nqueries_failed"),
    *("pgloadgen_error_messages", "pgloadgen_cpu_user_us", "pgloadgen_cpu_system_us"),
}
TRANSACTIONS, CLIENTS = 250, 4


class Samples(dict[tuple[str, tuple[tuple[str, str], ...]], float]):
    """Samples of one answer, by name and labels."""

    def __init__(self, text: str) -> None:
        self.families = list(text_string_to_metric_families(text))
        super().__init__(
            {
                (sample.name, tuple(sorted(sample.labels.items()))): sample.value
                for family in self.families
                for sample in family.samples
            }
        )

    def total(self, name: str, **labels: str) -> float:
        """The sum of the samples with this name and these labels."""
        found = [
            value for (of, has), value in self.items() if of == name and labels.items() <= {*has}
        ]
        assert found, f"{name} {labels}"
        return sum(found)


class Noted(Silent):
    """Keeps the steps, of which one names the URL."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    @property
    def url(self) -> str:
        return self.steps[0].removeprefix("metrics at ")


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def existing(cluster: Cluster) -> dict[str, Any]:
    return {"kind": "existing", "conninfo": cluster.conninfo.uri_without_password}


@pytest.fixture(scope="module")
def answered(
    pg18: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, Any], Path]:
    """The last answer about a run in which every transaction is measured, its result, its file."""
    path = tmp_path_factory.mktemp("metrics") / "run.db"
    spec = spec_from_fields(
        {
            "name": "metrics",
            "server": existing(pg18),
            "workload": {"script": "mixed"},
            "clients": [{"count": CLIENTS}],
            "load": {"transactions": TRANSACTIONS, "hold": "10min"},
        }
    )
    watcher = Noted()
    with (
        offering_metrics(watcher, "127.0.0.1:0") as offering,
        open_session(spec, run=path, command="run", spec_text="", watcher=offering) as session,
    ):
        result = run_spec(session)
        text = read(watcher.url)
    return text, result.to_json(), path


def test_the_answer_agrees_with_the_result_and_the_run_file(
    answered: tuple[str, dict[str, Any], Path],
) -> None:
    text, result, path = answered
    samples = Samples(text)
    with RunFile(path) as run:
        ledger = run.ledger()
        slices = [each.id for each in run.slices("run")]
        assert ledger == run.ledger(slices)
        response = run.histogram("response", slices)
        generator = run.generator()
        expected = sum(each.count for each in run.errors() if each.expected)
    for outcome in ("done", "failed", "skipped", "cancelled"):
        got = samples.total("pgdyno_transactions_total", outcome=outcome)
        assert got == getattr(ledger, outcome) == result["ledger"][outcome]
    assert samples.total("pgdyno_transactions_total", outcome="done") == TRANSACTIONS * CLIENTS
    assert samples.total("pgdyno_transactions_intended_total") == ledger.intended
    assert samples.total("pgdyno_transactions_expected_errors_total") == expected
    assert samples.total("pgdyno_errors_total", expected="yes") == expected
    assert samples.total("pgdyno_backlog") == ledger.backlog == 0
    assert samples.total("pgdyno_response_seconds_count") == response.count
    mean_s = samples.total("pgdyno_response_seconds_sum") / response.count
    assert mean_s == pytest.approx(response.mean / 1e9)
    assert round(1000 * mean_s, 3) == result["latency_ms"]["response"]["mean"]
    longest_s = samples.total("pgdyno_response_longest_seconds")
    assert round(1000 * longest_s, 3) == result["latency_ms"]["response"]["max"]
    cpu_s = samples.total("pgdyno_generator_cpu_seconds_total")
    assert cpu_s == pytest.approx((generator.cpu_user_us + generator.cpu_system_us) / 1e6)


def test_wait_and_service_are_the_response(answered: tuple[str, dict[str, Any], Path]) -> None:
    samples = Samples(answered[0])
    sums = {
        name: samples.total(f"pgdyno_{name}_seconds_sum")
        for name in ("response", "wait", "service")
    }
    assert sums["wait"] + sums["service"] == pytest.approx(sums["response"], rel=0.02)
    buckets = [
        value
        for (name, labels), value in samples.items()
        if name == "pgdyno_response_seconds_bucket"
    ]
    assert buckets == sorted(buckets)
    assert buckets[-1] == TRANSACTIONS * CLIENTS


def test_the_load_generators_own_metrics(answered: tuple[str, dict[str, Any], Path]) -> None:
    samples = Samples(answered[0])
    assert {each.name for each in samples.families} >= LOADGEN
    everything = TRANSACTIONS * CLIENTS
    assert samples.total("pgloadgen_nqueries_started") == everything
    assert samples.total("pgloadgen_nqueries_done") == everything
    assert samples.total("pgloadgen_query_latency_us_count") == everything
    invalid = samples.total("pgloadgen_nqueries_started", type="invalid")
    assert 0 < invalid < everything / 20
    assert samples.total("pgloadgen_nqueries_failed") == invalid
    assert samples.total("pgloadgen_nqueries_failed", type="insert_row") == 0
    assert samples.total("pgloadgen_error_messages") == invalid
    assert samples.total("pgloadgen_query_latency_us_count", result="error") == invalid
    assert samples.total("pgloadgen_cpu_user_us") + samples.total("pgloadgen_cpu_system_us") > 0
    inserted = samples.total("pgloadgen_nqueries_done", type="insert_row")
    assert 0.5 * everything < inserted < 0.7 * everything
    longest_us = samples.total("pgloadgen_query_latency_max_us", type="insert_row")
    assert 0 < longest_us <= 1e6 * samples.total("pgdyno_service_longest_seconds") * 1.001


def test_the_servers_metrics(answered: tuple[str, dict[str, Any], Path]) -> None:
    samples = Samples(answered[0])
    assert samples.total("pgdyno_server_up") == 1
    table = {"relation": "public.test_table"}
    assert 0 <= samples.total("pgdyno_server_table_dead_ratio", **table) < 1
    assert samples.total("pgdyno_server_table_size_bytes", **table) > 0
    age = samples.total("pgdyno_server_table_xid_age", of="table", **table)
    left = samples.total("pgdyno_server_table_xids_left", of="table", **table)
    assert age + left == 200_000_000
    with_toast = samples.total("pgdyno_server_table_xids_left", of="table and toast", **table)
    assert with_toast == 200_000_000 - max(
        age, samples.total("pgdyno_server_table_xid_age", of="toast", **table)
    )
    stop = samples.total("pgdyno_server_xids_left", database="postgres", until="stop")
    assert stop + samples.total("pgdyno_server_xid_age", database="postgres") == STOP_AGE
    assert samples.total("pgdyno_server_sessions", state="active") >= 0
    assert samples.total("pgdyno_server_wal_bytes_total") > 0


def test_promtool_finds_fault_with_the_load_generators_names_alone(
    answered: tuple[str, dict[str, Any], Path],
) -> None:
    promtool = _program("promtool")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=answered[0], capture_output=True, text=True
    )
    lines = (done.stdout + done.stderr).splitlines()
    assert [line for line in lines if not line.startswith("pgloadgen_")] == []
    own = "".join(
        line for line in answered[0].splitlines(keepends=True) if "pgloadgen_" not in line
    )
    assert subprocess.run([promtool, "check", "metrics"], input=own, text=True).returncode == 0


def test_no_metrics_of_the_load_generator_without_its_workload(
    pg18: Cluster, tmp_path: Path
) -> None:
    spec = spec_from_fields(
        {
            "server": existing(pg18),
            "workload": {"script": "select-only", "scale": 1},
            "clients": [{"count": 8, "think": "20ms"}],
            "load": {"transactions": 5, "hold": "10min"},
        }
    )
    watcher = Noted()
    with (
        offering_metrics(watcher, "0") as offering,
        open_session(
            spec, run=tmp_path / "run.db", command="run", spec_text="", watcher=offering
        ) as session,
    ):
        carry_out(session)
        text = read(watcher.url)
    assert "pgloadgen_" not in text
    assert Samples(text).total("pgdyno_transactions_total", outcome="done") == 40


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} on this machine")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def prometheus(url: str, directory: Path) -> Iterator[str]:
    """A Prometheus that scrapes ``url`` each second; yields its address."""
    port = free_port()
    config = directory / "prometheus.yml"
    target = url.removeprefix("http://").removesuffix("/metrics")
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
                "scrape_configs": [
                    {"job_name": "pgdyno", "static_configs": [{"targets": [target]}]}
                ],
            }
        )
    )
    command = [
        _program("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def targets() -> list[tuple[str, frozenset[str]]]:
    """Every expression of the dashboard's panels, over half a minute, and the labels that the
    names of its lines are made of."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    found = [target for panel in panels for target in panel.get("targets", ())]
    assert len(found) > 30
    return [
        (
            each["expr"].replace("$__rate_interval", "30s"),
            frozenset(re.findall(r"{{(.*?)}}", each["legendFormat"])),
        )
        for each in found
    ]


def has_data(base: str, expression: str, labels: frozenset[str]) -> bool:
    try:
        text = read(f"{base}/api/v1/query?{urlencode({'query': expression})}")
    except urllib.error.HTTPError as problem:
        pytest.fail(f"{expression}: {problem.read().decode()}")
    except OSError:
        return False  # Prometheus is starting.
    found = [each for each in json.loads(text)["data"]["result"] if each["value"][1] != "NaN"]
    for each in found:
        assert labels <= each["metric"].keys(), f"{expression}: {each['metric']}"
    return bool(found)


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24, "the width of a dashboard"
    sources = [each["datasource"] for each in (*panels, *dashboard["annotations"]["list"])
               if "datasource" in each]  # fmt: skip
    assert all(each == {"type": "prometheus", "uid": "${datasource}"} for each in sources)


def test_every_panel_of_the_dashboard_has_data(tmp_path: Path, open_dir: Path) -> None:
    _program("prometheus")
    spec = spec_from_fields(
        {
            "name": "panels",
            "workload": {"script": "mixed"},
            "clients": [{"count": 2, "think": "20ms"}],
            "standby": {"mode": "async", "count": 1},
            "load": {"hold": "1h"},
        }
    )
    watcher = Noted()
    with (
        offering_metrics(watcher, "127.0.0.1:0") as offering,
        prometheus(watcher.url, tmp_path) as base,
        open_session(
            spec, run=tmp_path / "run.db", command="run", spec_text="", watcher=offering
        ) as session,
    ):
        session.start_load()
        session.wait_connected()
        missing = set(targets())

        def found() -> bool:
            missing.difference_update([each for each in missing if has_data(base, *each)])
            return not missing

        with slow_vacuums(connect_plain(session.target.conninfo)), session.measured("run"):
            wait_until(found, f"data for {missing}")
        session.stop_load()


@contextmanager
def slow_vacuums(connection: psycopg.Connection) -> Iterator[None]:
    """Vacuums, one after another, each of which takes a while."""
    stop = threading.Event()

    def vacuum() -> None:
        with connection, suppress(psycopg.errors.QueryCanceled):
            connection.autocommit = True
            connection.execute("set vacuum_cost_delay = '50ms'; set vacuum_cost_limit = 2")
            while not stop.is_set():
                connection.execute("vacuum (disable_page_skipping) test_table")

    thread = threading.Thread(target=vacuum)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        connection.cancel_safe()
        thread.join()


def test_a_port_in_use_is_refused() -> None:
    with (
        open_endpoint(Address("127.0.0.1", 0)) as (_, url),
        pytest.raises(SetupError, match="in use") as refused,
        open_endpoint(parse_address(url.removeprefix("http://").removesuffix("/metrics"))),
    ):
        pass
    assert refused.value.code == "metrics-address"


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"], ids=["foreign", "unknown"])
def test_an_address_of_no_interface_is_refused(host: str) -> None:
    with pytest.raises(SetupError) as refused, open_endpoint(Address(host, 0)):
        pass
    assert refused.value.code == "metrics-address"


def test_a_refused_address_is_said_before_the_load(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run = tmp_path / "run.db"
        done = subprocess.run(
            [sys.executable, "-m", "pgdyno", "run", "--metrics", str(port), "-o", str(run)],
            capture_output=True,
            text=True,
            env=os.environ | {"LC_ALL": "C"},
        )
    assert done.returncode == 1
    assert re.match(rf"error: metrics cannot be offered on 127.0.0.1:{port}: .*in use", done.stderr)
    assert not run.exists()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9187", "127.0.0.1:9187"),
        (":9187", "127.0.0.1:9187"),
        ("0.0.0.0:1", "0.0.0.0:1"),
        ("[::1]:2", "[::1]:2"),
    ],
    ids=["port", "colon", "all", "six"],
)
def test_addresses(text: str, address: str) -> None:
    assert str(parse_address(text)) == address


@pytest.mark.parametrize(
    "text", ["", "x", "1:x", "::1:2", "a b:1", "h:70000", "http://h:1"],
    ids=["empty", "word", "no-port", "bare-six", "space", "above", "url"],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="metrics"):
        spec_from_fields({"metrics": text})
