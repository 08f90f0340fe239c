"""Load of others on the server, from run files made by hand and from the server's answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import CPU, Load, _times, ranked
from inline_snapshot import snapshot
from record_samples import add_second, at, group_row, new_recorder, script_row

from pgdyno.diagnose import diagnose
from pgdyno.probe._other_load import ForeignLoadWatch
from pgdyno.record import RunFile
from pgdyno.record.fileformat import OTHERS_BACKEND
from pgdyno.trial.trust import doubts

SECONDS = 10


def run_file(
    tmp_path: Path, *databases: dict[str, Any], seconds: int = SECONDS, reported: float = 1.0
) -> RunFile:
    """Four connections in service, 1,000 rows a second written; and what ``databases`` did beside:
    rates per second. The statistics show the ``reported`` part of the load's own work."""
    path = tmp_path / f"run-{len(list(tmp_path.iterdir()))}.db"
    spec = {"name": "sample", "clients": [{"name": "web", "count": 4}]}
    recorder = new_recorder(path, spec=spec)
    slice_id = recorder.open_slice("run", ns=at(recorder, 0))
    times = {"service": _times(4, 1000), "response": _times(4, 1000)}
    for second in range(seconds):
        row = script_row(intended=1000, sent=1000, done=1000, **times)
        add_second(recorder, second, [row], groups=[group_row(clients=4, connections=4)])
    for edge in range(seconds + 1):
        ns = at(recorder, edge)
        seen = round(1000 * edge * reported)
        own = {"xact_commit": seen, "tup_inserted": 0, "tup_updated": seen, "tup_deleted": 0}
        recorder.add_rows("metric_database", [own], ns=ns)
        recorder.add_rows("metric_foreign", [_at(edge, each) for each in databases], ns=ns)
    recorder.close_slice(slice_id, ns=at(recorder, seconds))
    recorder.finish("done")
    return RunFile(path)


def _at(edge: int, rates: dict[str, Any]) -> dict[str, Any]:
    counted = {
        name: rate * edge for name, rate in rates.items() if name not in ("database", "at_work")
    }
    return {"database": rates["database"], "at_work": rates.get("at_work", 0), **counted}


def busy(database: str, *, active: float, transactions: float, rows: float = 0.0) -> dict[str, Any]:
    """Another database, its sessions at work, transactions and rows written per second."""
    moved = {"active_time_ms": active * 1000, "transactions": transactions, "rows_written": rows}
    return {"database": database, **moved}


def finding(run: RunFile) -> Any:
    found = diagnose(run, [part.id for part in run.slices()]).findings
    return next(each for each in found if each.id == "other-load"), found


def test_a_server_of_our_own_is_cleared(tmp_path: Path) -> None:
    with run_file(tmp_path, busy("postgres", active=0.01, transactions=3, rows=1)) as run:
        load, _ = finding(run)
        assert (load.status, doubts(run)) == ("cleared", [])


def test_sessions_in_another_database_are_found_and_named(tmp_path: Path) -> None:
    with run_file(tmp_path, busy("shop", active=1.0, transactions=120, rows=50)) as run:
        load, found = finding(run)
        assert load.sentence == snapshot(
            "20 % of the server's working sessions are not this load's: shop (1 session, 120"
            " transactions/s, 50 rows/s written)"
        )
        assert found[0].id == "other-load"
        assert doubts(run) == [], "less than a third"


def test_more_than_a_third_is_not_trusted(tmp_path: Path) -> None:
    with run_file(tmp_path, busy("shop", active=3.0, transactions=120)) as run:
        load, found = finding(run)
        assert found[0].id == "other-load"
        assert doubts(run) == [load.sentence]


def test_one_session_that_writes_more_than_all_clients_counts_by_its_rows(tmp_path: Path) -> None:
    with run_file(tmp_path, busy("loading", active=0.3, transactions=1, rows=9000)) as run:
        load, _ = finding(run)
        assert load.sentence == snapshot(
            "90 % of the rows that the server writes are not this load's: loading (0.3 sessions,"
            " 1 transactions/s, 9,000 rows/s written)"
        )
        assert doubts(run)


LOADING = busy("loading", active=0.3, transactions=1, rows=800)


@pytest.mark.parametrize("reported", [1.0, 0.25])
def test_rows_that_the_load_has_not_reported_yet_count(tmp_path: Path, reported: float) -> None:
    with run_file(tmp_path, LOADING, reported=reported) as run:
        load, _ = finding(run)
        assert load.sentence == snapshot(
            "44 % of the rows that the server writes are not this load's: loading (0.3 sessions,"
            " 1 transactions/s, 800 rows/s written)"
        )


@pytest.mark.parametrize(("seconds", "reported"), [(1, 1.0), (2, 1.0), (10, 0.0)])
def test_rows_are_not_compared_before_sessions_have_reported(
    tmp_path: Path, seconds: int, reported: float
) -> None:
    with run_file(tmp_path, LOADING, seconds=seconds, reported=reported) as run:
        load, _ = finding(run)
        assert load.status == "cleared"
        assert doubts(run) == []


@pytest.mark.parametrize(
    "idle",
    [
        busy("template1", active=0.1, transactions=23, rows=5000),
        busy("vacuumed", active=0.0, transactions=23, rows=5000),
    ],
)
def test_databases_without_sessions_are_not_blamed(tmp_path: Path, idle: dict[str, Any]) -> None:
    with run_file(tmp_path, idle) as run:
        assert finding(run)[0].status == "cleared"


def test_sessions_of_others_in_the_database_under_load_are_sampled(tmp_path: Path) -> None:
    with run_file(tmp_path, {"database": "pgdyno", "at_work": 4}) as run:
        load, _ = finding(run)
        assert load.sentence == snapshot(
            "50 % of the server's working sessions are not this load's: pgdyno (4 sessions)"
        )


def test_without_a_look_it_is_not_checked(tmp_path: Path) -> None:
    recorder = new_recorder(tmp_path / "run.db")
    slice_id = recorder.open_slice("run", ns=at(recorder, 0))
    recorder.close_slice(slice_id, ns=at(recorder, 1))
    recorder.finish("done")
    with RunFile(tmp_path / "run.db") as run:
        assert finding(run)[0].status == "skipped"


def answer(database: str, transactions: int | None, at_work: int = 0) -> dict[str, Any]:
    return {"database": database, "transactions": transactions, "at_work": at_work}


def test_databases_in_which_nothing_moves_have_no_rows() -> None:
    load = ForeignLoadWatch()
    first = [answer("quiet", 5), answer("own", None), answer("shop", 7)]
    assert load.moved(first) == []
    moved = load.moved([answer("quiet", 5), answer("own", None), answer("shop", 9)])
    assert moved == [answer("shop", 7), answer("shop", 9)]
    again = load.moved([answer("quiet", 5), answer("own", None, at_work=1), answer("shop", 9)])
    assert again == [answer("own", None), answer("own", None, at_work=1), answer("shop", 9)]


@pytest.mark.parametrize("gone", [True, False])
def test_a_database_that_goes_leaves_its_rows(gone: bool) -> None:
    load = ForeignLoadWatch()
    load.moved([answer("shop", 1)])
    assert len(load.moved([answer("shop", 2)])) == 2
    assert load.moved([] if gone else [answer("shop", 2)]) == ([] if gone else [answer("shop", 2)])


def computing(cores: float, *, busy: float) -> Load:
    """A load on two cores, of which the processes of others use so many, in one session."""
    return Load(
        tps=8000,
        service_ms=0.5,
        sessions={CPU: 3.0},
        busy=busy,
        server=1.0 - cores / 2 / busy,
        counters={
            "metric_database": [{"xact_commit": 8000.0}],
            "metric_process": [
                {
                    "role": OTHERS_BACKEND,
                    "count": 1,
                    "cpu_user_ms": cores * 1000,
                    "cpu_system_ms": 0.0,
                }
            ],
        },
        rows={"metric_foreign": lambda _: [{"database": "pgdyno", "at_work": 0.4}]},
    )


@pytest.mark.parametrize(("cores", "status"), [(0.5, "found"), (0.18, "cleared")])
def test_a_session_that_computes_counts_by_its_cpu_time(
    tmp_path: Path, cores: float, status: str
) -> None:
    first, *_ = found = ranked(tmp_path, computing(cores, busy=1.0))
    load = next(each for each in found if each.id == "other-load")
    assert load.status == status
    if status == "found":
        assert first.id == "other-load"
        assert load.sentence == snapshot(
            "25 % of the time of the server's cores is not this load's: pgdyno (0.4 sessions)"
        )
        assert load.gain == pytest.approx(1 / (1 - 0.25), rel=0.1)


def test_cores_that_nobody_else_wants_are_taken_from_nobody(tmp_path: Path) -> None:
    found = ranked(tmp_path, computing(0.5, busy=0.6))
    load = next(each for each in found if each.id == "other-load")
    assert (load.status, load.rank, load.gain) == ("found", None, None)
