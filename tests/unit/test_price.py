"""The price list: what is on it, what a user may add, and the words for what came of it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import price_runs
import pytest
import report_runs
from inline_snapshot import snapshot
from price_runs import cut, drilled

from pgdyno.cli.output import print_csv
from pgdyno.drill.model import NOTHING_ACKED
from pgdyno.errors import UsageError
from pgdyno.price._gain import check_real_disk, price_question, slice_seconds, too_long
from pgdyno.price._loss import LossTable, cells_of, not_drilled
from pgdyno.price.candidates import BASELINE, Candidate, choose, ladder, parse_candidate
from pgdyno.price.pricing import broken_promises, check_price, default_budget_s
from pgdyno.price.sentences import harm, sentence, verdict
from pgdyno.price.two_servers import Priced, compared
from pgdyno.record import RunFile
from pgdyno.record.cut import LedgerCount
from pgdyno.remedy import catalogue
from pgdyno.report.summary import RunSummary
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.report.views import price as view
from pgdyno.report.words.price_list import gain_head, p99_words
from pgdyno.results.price import Gain, NotMeasured, PriceResult
from pgdyno.spec import Change, spec_from_fields

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "result-price.schema.json"
NAMES = [candidate.id for candidate in ladder()]


def rung(name: str) -> Candidate:
    return next(candidate for candidate in ladder() if candidate.id == name)


@pytest.mark.parametrize("candidate", ladder(), ids=NAMES)
def test_every_rung_can_be_put_into_a_spec(candidate: Candidate) -> None:
    spec = candidate.spec(spec_from_fields({"server": {"settings": {"work_mem": "8MB"}}}))
    assert spec.server.settings["work_mem"] == "8MB"
    for name, value in candidate.change.settings.items():
        assert spec.server.settings[name] == value
    assert candidate.assessment.faults
    if candidate.remedy:
        known = catalogue()[candidate.remedy].durability_class
        assert candidate.assessment.durability_class == known


def test_a_mixed_gain_says_what_went_against_it() -> None:
    gain = price_runs.price(rung("fpw-off")).gain
    assert isinstance(gain, Gain)
    against = (
        "client group web loses: 0.8x [0.7, 0.9]",
        "2 % of the transactions fail with the change, 0 % without",
    )
    words = sentence(gain.model_copy(update={"verdict": "mixed", "against": against}), [])
    assert words.startswith(f"mixed: {against[0]}; {against[1]}; in total throughput ")
    older = sentence(gain.model_copy(update={"verdict": "mixed"}), [])
    assert older == snapshot(
        "mixed, with 1.31x [1.26, 1.36] the throughput in total: a client group loses, or more fail"
    )


def test_the_ladder_climbs_from_losing_nothing_to_losing_all() -> None:
    classes = [candidate.assessment.durability_class for candidate in ladder()]
    assert (classes[0], classes[-1]) == ("D0", "D3")
    assert set(classes) == {"D0", "D1", "D2", "D3"}
    bases = {rung(n).base.spec["server.checksums"] for n in ("fpw-off", "fpw-off-no-checksums")}
    assert bases == {"true", "false"}


def test_choosing_rungs() -> None:
    assert [c.id for c in choose(None, ())] == NAMES
    assert [c.id for c in choose(["fsync-off", " async-2s"], ())] == [
        BASELINE,
        "fsync-off",
        "async-2s",
    ]
    assert [c.id for c in choose(None, ["fsync=off"])] == [BASELINE, "fsync=off"]
    assert [c.id for c in choose(["async-2s"], ["fsync=off"])] == [
        BASELINE,
        "async-2s",
        "fsync=off",
    ]


@pytest.mark.parametrize(
    ("ladder_names", "own", "message"),
    [
        (["sync"], (), '"sync" is not on the ladder'),
        ([""], (), "no candidate is named"),
        (None, ("fsync",), '"fsync" is not NAME=VALUE'),
        (None, ("fsync=off", "fsync=off"), "given twice"),
        (None, ("server.checksums=false",), "changes nothing"),
    ],
)
def test_what_cannot_be_chosen(
    ladder_names: list[str] | None, own: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        choose(ladder_names, own)


def test_a_candidate_of_the_users_own() -> None:
    made = parse_candidate("full_page_writes=off, wal_compression=on,disk.wal=tmpfs:1GB")
    assert made.change == Change(
        settings={"full_page_writes": "off", "wal_compression": "on"},
        spec={"disk.wal": "tmpfs:1GB"},
    )
    assert (made.assessment.durability_class, made.remedy) == ("D3", "wal-on-tmpfs")
    assert made.assessment.faults == ("power", "wal-device")
    assert made.assessment.checkpoint_bound


def test_a_list_in_a_value_is_one_value() -> None:
    made = parse_candidate("synchronous_standby_names=a,b,commit_delay=100")
    assert made.change.settings == {"synchronous_standby_names": "a,b", "commit_delay": "100"}
    assert made.assessment.durability_class == "D0"


def test_checksums_are_for_both_sides() -> None:
    made = parse_candidate("server.checksums=false,full_page_writes=off")
    assert made.base.spec == {"server.checksums": "false"}
    assert "server.checksums" not in made.change.spec
    assert made.in_force().spec == {"server.checksums": "false"}


@pytest.mark.parametrize("disk", ["slow:flush=2ms", "blackout", "tmpfs:1GB"])
def test_no_gain_from_an_emulated_disk(disk: str) -> None:
    spec = spec_from_fields({"disk": {"data": disk}})
    with pytest.raises(UsageError, match=r"disk\.data = .*own disk"):
        check_real_disk(spec)


def test_only_servers_of_ours_are_priced() -> None:
    spec = spec_from_fields({"server": {"kind": "existing", "conninfo": "host=here"}})
    with pytest.raises(UsageError, match="crashes only servers that it started"):
        check_price(spec, ladder(), cuts=6)


def test_time_is_shared() -> None:
    assert 600 < default_budget_s(ladder(), 6) < 1200, "the ladder takes under 20 minutes"
    assert default_budget_s(ladder(), 0) < default_budget_s(ladder(), 6)
    assert 1 < slice_seconds(ladder(), default_budget_s(ladder(), 0)) < 5
    assert slice_seconds(ladder()[:2], 10_000) == 20


def test_slices_span_several_rounds_of_the_wal_writer() -> None:
    by_id = {each.id: each for each in ladder()}
    slow, quick = by_id["async-2s"], by_id["async-10ms"]
    assert price_question(slow, 1.4).seconds == 10
    assert price_question(quick, 1.4).seconds == 1.4
    assert too_long(slow, 400) is None
    assert too_long(slow, 60) == snapshot(
        "not measurable in this budget: with slices of 10s it needs about 5 min"
    )
    assert too_long(quick, 60) is None


def test_both_sides_pay_for_what_an_asynchronous_commit_postpones() -> None:
    by_id = {each.id: price_question(each, 1) for each in ladder()}
    assert by_id["async-200ms"].debts == ("WAL flush",)
    assert by_id["fpw-off"].debts == ("checkpoint",)
    assert by_id["commit-delay"].debts == ()


def test_the_result_keeps_its_schema() -> None:
    result = price_runs.price_result([price_runs.row(candidate) for candidate in ladder()])
    jsonschema.validate(json.loads(json.dumps(result)), json.loads(SCHEMA.read_text()))


def test_the_summary_says_how_the_trial_set_the_settings(tmp_path: Path) -> None:
    run = RunFile(price_runs.price_run(tmp_path / "run.db"))
    text = " ".join(line.text.strip() for line in summary_lines(run, 100))
    assert text.partition(" trial: ")[2].partition(" D1 ")[0] == snapshot(
        "set by ALTER SYSTEM and a reload"
    )


def test_sentences() -> None:
    said = {c.id: price_runs.row(c)["sentence"] for c in ladder()}
    assert said == snapshot(
        {
            "all-on": "kill: lost nothing in 6 cuts (so at most 39 % lose any); power: lost nothing in 6 cuts (so at most 39 % lose any)",
            "commit-delay": "makes no difference to throughput: 1.02x [0.98, 1.06]; power: lost nothing in 6 cuts (so at most 39 % lose any)",
            "async-10ms": "gives 1.52x [1.46, 1.58] the throughput; kill: lost at most 60 commits, the oldest 9 ms old, in 6 cuts (median 35, 5.25 ms), within the documented 30 ms; power: lost at most 60 commits, the oldest 9 ms old, in 6 cuts (median 35, 5.25 ms), within the documented 30 ms",
            "async-200ms": "gives 1.64x [1.57, 1.71] the throughput; kill: lost at most 60 commits, the oldest 120 ms old, in 6 cuts (median 35, 70 ms), within the documented 600 ms; power: lost at most 60 commits, the oldest 120 ms old, in 6 cuts (median 35, 70 ms), within the documented 600 ms",
            "async-2s": "gives 1.66x [1.59, 1.73] the throughput; kill: lost at most 60 commits, the oldest 900 ms old, in 6 cuts (median 35, 525 ms), within the documented 6 s; power: lost at most 60 commits, the oldest 900 ms old, in 6 cuts (median 35, 525 ms), within the documented 6 s",
            "fpw-off": "gives 1.31x [1.26, 1.36] the throughput; power: refused to start after 4 of 8 cuts",
            "fpw-off-no-checksums": "gives 1.33x [1.28, 1.38] the throughput; power: came up corrupt after 4 of 8 cuts",
            "wal-tmpfs": "gives 1.90x [1.82, 1.98] the throughput; wal-device, resetwal: came up corrupt after 3 of 3 cuts, lost at most 9 commits, the oldest 3 ms old, in 3 cuts (median 9, 3 ms)",
            "wal-tmpfs-async": "gives 1.60x [1.54, 1.66] the throughput; wal-device, promote: lost 12 commits, the oldest 4 ms old, in 1 cut, where nothing may be lost; wal-device, resetwal: came up corrupt after 1 of 1 cut",
            "wal-tmpfs-sync": "not measured: no standby here; not drilled with the fault wal-device: needs root",
            "unlogged": "gives 2.60x [2.50, 2.70] the throughput; kill: lost at most 4,000 commits, the oldest 1.5 s old, in 6 cuts (median 4,000, 1.5 s)",
            "fsync-off": "gives 2.10x [2.02, 2.18] the throughput; power: came up corrupt after 8 of 8 cuts",
        }
    )


def test_more_than_documented_is_said_aloud() -> None:
    (cell,) = cells_of(drilled("kill", [cut(1, "lost", 9, 700.0)], 600.0))
    price = price_runs.price(rung("async-200ms")).model_copy(update={"losses": (cell,)})
    assert sentence(None, price.losses) == snapshot(
        "kill: lost 9 commits, the oldest 700 ms old, in 1 cut, MORE than the documented 600 ms"
    )
    assert broken_promises([price]) == []
    (broken,) = cells_of(drilled("kill", [cut(1, "lost", 9, 700.0)], 0.0))
    price = price_runs.price(rung(BASELINE)).model_copy(update={"losses": (broken,)})
    assert broken_promises([price]) == [price.title]


def test_a_fault_that_did_not_happen_tells_nothing() -> None:
    (cell,) = cells_of(drilled("kill", [cut(1, "no-fault")], 0.0))
    price = price_runs.price(rung(BASELINE)).model_copy(update={"losses": (cell,)})
    assert sentence(None, price.losses) == snapshot(
        "kill: the fault did not happen, so nothing is known"
    )
    assert harm(price) == "unknown"


def test_a_drill_before_any_acknowledgement_shows_no_loss() -> None:
    idle = cut(1, "clean").model_copy(update={"ledger": LedgerCount(acked=0)})
    (cell,) = cells_of(drilled("kill", [idle], 0.0))
    price = price_runs.price(rung(BASELINE)).model_copy(update={"losses": (cell,)})
    assert sentence(None, price.losses) == f"kill: {NOTHING_ACKED}"
    assert harm(price) == "unknown"
    (cell,) = cells_of(drilled("kill", [idle, cut(2, "clean")], 0.0))
    price = price.model_copy(update={"losses": (cell,)})
    assert sentence(None, price.losses).startswith("kill: lost nothing in 2 cuts")
    assert harm(price) == "none"


def test_a_drill_that_broke_off_keeps_its_cuts_and_says_why() -> None:
    safe, fast = rung(BASELINE), rung("async-200ms")
    table = LossTable()
    table.enter(safe, "kill", drilled("kill", [cut(1, "clean"), cut(2, "clean")], 0.0))
    table.break_off(safe, "kill", "the server is gone")
    table.break_off(fast, "kill", "needs root")
    losses = table.losses(safe, "interrupted")
    assert sentence(None, losses) == snapshot(
        "kill: lost nothing in 2 cuts (so at most 78 % lose any), then ended early: the server is gone; not drilled with the fault power: interrupted"
    )
    price = price_runs.price(safe).model_copy(update={"losses": losses})
    assert harm(price) == "unknown"
    result = price_runs.price_result([price.to_json()])
    jsonschema.validate(json.loads(json.dumps(result)), json.loads(SCHEMA.read_text()))
    assert [loss.to_json()["why"] for loss in table.losses(fast, "interrupted")] == [
        "needs root",
        "interrupted",
    ]


@pytest.mark.parametrize("width", [80, 100, 140])
def test_tables_fit_the_terminal(tmp_path: Path, width: int) -> None:
    run = RunFile(price_runs.price_run(tmp_path / "run.db"))
    lines = [line.text for line in summary_lines(run, width)]
    lines = [line for line in lines if str(run.path) not in line]  # It is as long as it is.
    assert max(map(len, lines)) <= width
    heads = [line for line in lines if line.startswith("loss in a crash")]
    assert len(heads) == (1 if width == 140 else 2), "in one piece where there is room"


def test_a_long_name_keeps_its_value(tmp_path: Path) -> None:
    own = parse_candidate("full_page_writes=off,wal_compression=pglz")
    writer = report_runs.Writer(tmp_path / "run.db", 2, command="price")
    writer.recorder.update_run(result=price_runs.price_result([price_runs.row(own)]))
    lines = [line.text for line in summary_lines(RunFile(writer.finish()), 100)]
    assert any(line.startswith(" 1 full_page_write…n=pglz ") for line in lines)


@pytest.mark.parametrize(
    ("arrival", "compared", "head", "says"),
    [
        ("closed", "throughput", "p99, saturated", "16 clients that send without pauses"),
        ({"rate": 100}, "throughput", "p99", "in 1 of 1 trials the rate was not held"),
        ({"rate": 100}, "latency_p99", "p99 at the rate", ""),
    ],
)
def test_what_its_p99_is_of(
    tmp_path: Path, arrival: Any, compared: str, head: str, says: str
) -> None:
    row = price_runs.row(rung("async-200ms"))
    row["gain"]["compared"] = compared
    writer = report_runs.Writer(
        tmp_path / "run.db",
        2,
        command="price",
        spec={"name": "run", "clients": [{"name": "c", "count": 16, "arrival": arrival}]},
    )
    result = {**price_runs.price_result([row]), "compared": compared}
    writer.recorder.update_run(result=result)
    summary = RunSummary(RunFile(writer.finish()))
    assert gain_head(summary)[-1] == head
    assert says in p99_words(summary)
    assert bool(p99_words(summary)) == bool(says)


def test_a_candidate_is_judged_by_the_rescues_that_are_to_work() -> None:
    prices = {candidate.id: price_runs.price(candidate) for candidate in ladder()}
    assert harm(prices["wal-tmpfs-async"]) == "lost", "promoted, in spite of pg_resetwal"
    assert harm(prices["wal-tmpfs"]) == "broken", "there is nothing else"


def test_the_verdict_keeps_prices_apart() -> None:
    prices = [price_runs.price(candidate) for candidate in ladder()]
    assert verdict(prices) == snapshot(
        "largest gain with a loss of commits only: synchronous_commit = off, wal_writer_delay = 2s (D1), 1.66x (12 cuts); with a broken or emptied database: unlogged tables (D3), 2.60x (6 cuts)"
    )
    none = not_drilled("kill", "no cuts were requested")
    undrilled = prices[4].model_copy(update={"losses": (none,)})
    assert verdict([undrilled]) == snapshot(
        "largest gain: synchronous_commit = off, wal_writer_delay = 2s, 1.66x; its price was not drilled"
    )
    assert verdict([prices[0]]) == snapshot("nothing on this list was measured")
    gains = [price for price in prices if isinstance(price.gain, Gain)]
    weak = [price for price in gains if price.gain.verdict != "better"]
    missing = [price for price in prices if isinstance(price.gain, NotMeasured)]
    assert verdict(weak) == snapshot("nothing on this list measurably increases throughput here")
    assert verdict([*weak, *missing]) == snapshot(
        "nothing on this list measurably increases throughput here; 1 of 2 were not measured"
    )


def test_the_terminal_shows_every_candidate_and_drill(tmp_path: Path) -> None:
    run = RunFile(price_runs.price_run(tmp_path / "run.db"))
    lines = [line.text for line in summary_lines(run, 170)]
    text = "\n".join(lines)
    for candidate in ladder():
        assert candidate.id in text
        assert candidate.title in text
    bought, taken = (line.split() for line in lines if "async-200ms " in line)
    assert bought == [
        "4",
        "async-200ms",
        "D1",
        "1.64x",
        "[1.57,",
        "1.71]",
        "0.74x",
        "[0.67,",
        "0.82]",
    ]
    assert taken == ["4", "async-200ms", "kill", "6", "60", "(35)", "120", "(70.0)", "100", "%",
                     "0", "of", "6", "600", "ms", "240", "ms"]  # fmt: skip
    assert "not drilled" in text


def test_gains_alone_as_csv(capfd: pytest.CaptureFixture[str]) -> None:
    rows = [price_runs.row(candidate) for candidate in ladder()]
    why = "no cuts were requested"
    losses = LossTable().losses(ladder()[0], why)
    rows[0]["losses"] = [loss.to_json() for loss in losses]
    result = price_runs.price_result(rows)
    print_csv(view.rows(PriceResult.model_validate(result)))
    read = [*csv.DictReader(io.StringIO(capfd.readouterr().out))]
    assert [(row["candidate"], row["fault"], row["why"]) for row in read[:2]] == [
        ("all-on", "kill", why),
        ("all-on", "power", why),
    ]
    asynchronous = next(row for row in read if row["candidate"] == "async-200ms")
    assert float(asynchronous["throughput_ratio"]) == pytest.approx(1.64)
    assert (asynchronous["lost_max"], asynchronous["bound_ms"]) == ("60", "600.0")


def test_two_servers_are_held_against_each_other(tmp_path: Path) -> None:
    slow, fast = rung("async-200ms"), rung("commit-delay")
    here = [price_runs.row(candidate) for candidate in (slow, fast)]
    there = json.loads(json.dumps(here))
    there[0]["gain"] |= {"throughput_ratio": 1.1, "ci95": [1.0, 1.2]}
    losing = [cut(n, "lost", 500 + n, 60.0 + n) for n in range(12)]
    keeping = [cut(n, "lost", n, 0.1 * n) for n in range(1, 13)]
    sides = [
        Priced(
            PriceResult.model_validate(
                {**price_runs.price_result(rows, f"{version}.db"), "server_version": version}
            ),
            {("async-200ms", "kill"): drilled("kill", cuts, 600.0).model_copy(
                    update={"server_version": version}
                )},
        )
        for rows, version, cuts in ((here, "18.6", losing), (there, "15.20", keeping))
    ]  # fmt: skip
    result = compared(*sides)
    found = {(each.candidate, each.what): each.differs for each in result.differences or ()}
    assert found["async-200ms", "throughput_ratio"]
    assert not found["commit-delay", "throughput_ratio"]
    assert found["async-200ms", "lost"]
    assert not found["async-200ms", "damaged"]
    jsonschema.validate(result.to_json(), json.loads(SCHEMA.read_text()))
    writer = report_runs.Writer(tmp_path / "run.db", 2, command="price")
    writer.recorder.update_run(result=result.to_json())
    lines = [line.text for line in summary_lines(RunFile(writer.finish()), 170)]
    assert [line for line in lines if "15.20" in line or "comparisons" in line] == snapshot(
        [
            "compared    compared with PostgreSQL 15.20, whose list is in 15.20.db",
            "            synchronous_commit = off, wal_writer_delay = 200ms: throughput 1.64x on 18.6 and 1.10x on 15.20: a difference",
            "            synchronous_commit = off, wal_writer_delay = 200ms, kill: lost commits: median 505.5 on 18.6 and 6.5 on 15.20: a difference (p = 3.7e-05)",
            "            synchronous_commit = off, wal_writer_delay = 200ms, kill: lost commits reach back: median 65.5 ms on 18.6 and 0.65 ms on 15.20: a difference (p = 3.7e-05)",
            "            no difference in 3 of 6 comparisons",
        ]
    )
