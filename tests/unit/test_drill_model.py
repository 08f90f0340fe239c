"""What drills say: cuts as JSON and rows, figures over cuts, the bound that n cuts allow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import drill_runs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from record_samples import new_recorder

from pgdyno.drill.model import (
    NOTHING_ACKED,
    DrillOptions,
    Verified,
    in_words,
    share_upper_bound,
    summarise,
)
from pgdyno.drill.storage import store_drill, stored_drills
from pgdyno.record import RunFile
from pgdyno.record.cut import Check, Cut, LedgerCount, Outcome, Proof
from pgdyno.results.drill import Drill

HAPPENED = Proof(happened=True, sentence="all 12 server processes are gone", facts={"pids": 12})


def a_cut(
    outcome: Outcome = "clean",
    *,
    number: int = 1,
    acked: int = 1000,
    lost: int = 0,
    lost_ms: float = 0.0,
    happened: bool = True,
) -> Cut:
    ledger = None if outcome == "refused" else LedgerCount(acked=acked, lost=lost, lost_ms=lost_ms)
    verified = Verified(
        outcome,
        ledger,
        None if outcome == "refused" else 0.25,
        (
            Check(
                name="ledger",
                passed=outcome == "clean",
                detail="1,000 acknowledged, 0 of them lost",
                seconds=0.1,
            ),
        ),
        seen_by="" if outcome == "clean" else "ledger",
    )
    proof = HAPPENED.model_copy(update={"happened": happened})
    return verified.of(drill_runs.cut_with(proof, number=number, at_ms=1234.56))


def a_result(*cuts: Cut, bound_ms: float | None = 0.0, **more: Any) -> Drill:
    told = {"bound": "nothing may be lost", "server_version": "18.6", **more}
    return drill_runs.drill_with(cuts, bound_ms, **told)


def test_a_cut_as_json() -> None:
    cut = a_cut("lost", lost=12, lost_ms=34.5678)
    whole = json.loads(json.dumps(cut.to_json()))
    assert (whole["outcome"], whole["ledger"]["lost"]) == ("lost", 12)
    assert whole["ledger"]["lost_ms"] == 34.568
    assert whole["proof"]["happened"] is True
    assert (whole["checks"][0]["name"], whole["checks"][0]["passed"]) == ("ledger", False)
    assert Cut.model_validate(whole) == cut


def test_a_fault_that_did_not_happen_proves_nothing() -> None:
    cut = a_cut("lost", lost=12, happened=False)
    assert cut.outcome == "no-fault"
    assert cut.ledger is None
    result = a_result(a_cut(), cut)
    assert result.fault_missing
    assert result.summary.happened == 1
    assert result.summary.lost_max == 0
    assert a_result().fault_missing
    sentences = [each.summary.sentence for each in (result, a_result(cut), a_result())]
    assert sentences == snapshot(
        [
            "0 of 1 cut lost anything; in 1 of 2 cuts the fault did not happen",
            "the fault did not happen in the only cut: nothing is known",
            "no cut was made: nothing is known",
        ]
    )


def test_the_figures_over_all_cuts() -> None:
    cuts = [a_cut("lost", lost=n, lost_ms=n / 10) for n in (10, 30, 20)]
    summary = a_result(*cuts, a_cut(), a_cut("corrupt"), a_cut("refused")).summary
    assert (summary.cuts, summary.happened) == (6, 6)
    assert (summary.lost, summary.corrupt, summary.refused, summary.clean) == (
        3, 1, 1, 1,
    )  # fmt: skip
    assert (summary.lost_max, summary.lost_median) == (30, 10)
    assert (summary.lost_ms_max, summary.recovery_s_max) == (3.0, 0.25)
    assert summary.sentence == snapshot(
        "1 of 6 cuts came up corrupt; the server refused to start after 1 of 6 cuts; 3 of 6 cuts lost acknowledged commits: at most 30, acknowledged up to 3 ms before the fault; median 10 and 1 ms"
    )


def test_twenty_clean_cuts_in_words() -> None:
    summary = a_result(*[a_cut(number=n) for n in range(1, 21)]).summary
    assert summary.sentence == snapshot(
        "0 of 20 cuts lost anything: at most 14 % of such crashes would, with 95 % confidence"
    )
    assert summary.upper_bound == pytest.approx(0.1391, abs=1e-4)


def test_a_long_time_back_is_told_in_seconds() -> None:
    cut = a_cut("lost", lost=3, lost_ms=1085.2)
    assert summarise([cut, cut], None).sentence == snapshot(
        "2 of 2 cuts lost acknowledged commits: at most 3, acknowledged up to 1.09 s before the fault; median 3 and 1.09 s"
    )


def test_a_single_cut_has_no_statistics() -> None:
    cut = a_cut("lost", lost=16, lost_ms=62.4)
    assert summarise([cut], None).sentence == snapshot(
        "the cut lost 16 commits, acknowledged up to 62.4 ms before the fault"
    )


def test_cuts_before_any_acknowledgement_are_counted_apart() -> None:
    idle, busy = a_cut(acked=0), a_cut(acked=5)
    assert summarise([idle, busy], 0.0).sentence == snapshot(
        "0 of 2 cuts lost anything; in 1 of them nothing was acknowledged before the fault"
    )
    assert summarise([idle], 0.0).sentence == NOTHING_ACKED


def test_a_cut_before_any_acknowledgement_is_no_proof_that_nothing_is_lost() -> None:
    cuts = (a_cut(acked=0), a_cut(acked=5), a_cut("corrupt", acked=0))
    assert [in_words(each) for each in cuts] == snapshot(
        [
            "nothing was acknowledged before the fault, so nothing could be lost and nothing is known, up again after 250 ms",
            "all of 5 acknowledged commits are present, up again after 250 ms",
            'corrupt, found by the check "ledger", up again after 250 ms',
        ]
    )


def test_worse_than_the_bound() -> None:
    late = a_cut("lost", lost=5, lost_ms=700)
    soon = a_cut("lost", lost=5, lost_ms=100)
    assert a_result(late, soon, bound_ms=600).worse_than_bound() == [late]
    assert a_result(soon, bound_ms=0).worse_than_bound() == [soon]
    assert a_result(a_cut("corrupt"), bound_ms=600).worse_than_bound()
    assert not a_result(late, a_cut("corrupt"), bound_ms=None).worse_than_bound()
    own = a_cut("corrupt").model_copy(update={"facts": {"bound_ms": 0.0}})
    assert a_result(own, bound_ms=None).worse_than_bound() == [own]
    free = a_cut("corrupt").model_copy(update={"facts": {"bound_ms": None}})
    assert not a_result(free, bound_ms=0).worse_than_bound()


@given(st.integers(1, 400), st.data())
def test_the_upper_bound_is_the_exact_one(n: int, data: st.DataObject) -> None:
    harmed = data.draw(st.integers(0, n))
    bound = share_upper_bound(harmed, n)
    assert bound is not None
    assert harmed / n <= bound + 1e-4
    assert bound <= 1
    if harmed == 0:
        assert bound <= 3 / n + 1e-4, "the rule of three is an upper bound of it"
    if 0 < harmed < n:
        from scipy.stats import binom

        assert binom.cdf(harmed, n, bound) == pytest.approx(0.05, abs=0.02)


def test_nothing_seen_has_no_bound() -> None:
    assert share_upper_bound(0, 0) is None


def test_a_drill_comes_back_from_its_run_file_as_it_was(tmp_path: Path) -> None:
    cuts = (a_cut("lost", lost=3, lost_ms=1.5), a_cut("refused", number=2), a_cut(number=3))
    result = a_result(*cuts, seed=9, run_file=str(tmp_path / "run.db"))
    with new_recorder(
        tmp_path / "run.db", command="drill", server={"version": "18.6 (Debian)"}
    ) as recorder:
        drill_id = store_drill(recorder, result, DrillOptions("kill", seed=9))
        for cut in result.cuts:
            recorder.add_cut(drill_id, cut, ns=recorder.started_ns)
        recorder.finish("done")
    with RunFile(tmp_path / "run.db") as run:
        (stored,) = stored_drills(run)
    assert stored == result
    assert stored.cuts == result.cuts


def test_a_fault_that_did_not_happen_leaves_nothing_to_read(tmp_path: Path) -> None:
    with new_recorder(tmp_path / "run.db", command="drill") as recorder:
        drill_id = store_drill(recorder, a_result(sham=True), DrillOptions("kill", sham=True))
        recorder.add_cut(drill_id, a_cut(happened=False), ns=recorder.started_ns)
        recorder.finish("done")
    with RunFile(tmp_path / "run.db") as run:
        (stored,) = stored_drills(run)
    assert stored.sham
    assert [cut.outcome for cut in stored.cuts] == ["no-fault"]
