"""Settings that are not at their built-in value, as results and pages have them, and as remedies that
are kept."""

from __future__ import annotations

import pytest

from pgdyno.facts.unusual import JudgedSetting
from pgdyno.investigate._progress import Kept, together, with_kept
from pgdyno.investigate._suspects import reset_of
from pgdyno.plans._candidates import of_resets
from pgdyno.plans.tree import read_plan
from pgdyno.plans.unusual import with_unit
from pgdyno.record import UnusualSetting
from pgdyno.remedy import Circumstances
from pgdyno.report.view import OnPage
from pgdyno.report.words import unusual
from pgdyno.report.words.tables import Table
from pgdyno.spec import Change, spec_from_fields
from pgdyno.trial.result import unusual_settings_of

DELAY = UnusualSetting("commit_delay", "5000", "0", may_set=False, source="configuration file")
MEMORY = UnusualSetting("work_mem", "64kB", "4MB", may_set=True, source="database")
NAPTIME = UnusualSetting("autovacuum_naptime", "10s", "1min", may_set=False, source="user")
JUDGED = (
    JudgedSetting(NAPTIME),
    JudgedSetting(DELAY, finding="commit-delay"),
    JudgedSetting(MEMORY, saved_share=0.25, tried_with=("geqo",), finding="costly-settings"),
)


def test_resets_of_jit_are_tried_first_where_a_plan_is_compiled() -> None:
    compiled = read_plan({"Plan": {"Node Type": "Result"}, "JIT": {"Timing": {"Total": 50.0}}})
    plain = read_plan({"Plan": {"Node Type": "Result"}})
    cost = UnusualSetting("jit_above_cost", "0", "100000", may_set=True)
    names = [
        [[*each.settings] for each in changes]
        for plans in ([plain, compiled], [plain])
        for changes in of_resets([MEMORY, cost], plans)
    ]
    assert names == [[["jit_above_cost"]], [["work_mem"]], [], [["work_mem"], ["jit_above_cost"]]]


def test_how_each_was_judged_is_said() -> None:
    shown = unusual_settings_of(JUDGED) or ()
    assert [(each.setting, each.judged, each.saved_share) for each in shown] == [
        ("autovacuum_naptime", "not", None),
        ("commit_delay", "by a finding", None),
        ("work_mem", "beside the load", 0.25),
    ]
    assert [each.finding for each in shown] == [None, "commit-delay", "costly-settings"]
    assert shown[2].reset_with == ("geqo",)
    assert unusual_settings_of(None) is None


def test_the_page_has_a_row_for_each() -> None:
    (section,) = unusual.sections(unusual_settings_of(JUDGED))
    ((part,),) = (section.parts,)
    assert isinstance(part, OnPage)
    assert isinstance(part.part, Table)
    assert [row[:4] for row in part.part.rows] == [
        (each.setting.name, each.setting.value, each.setting.reset, each.setting.source)
        for each in JUDGED
    ]
    assert unusual.sections(()) == unusual.sections(None) == []


def kept(*settings: UnusualSetting) -> Kept:
    proposal = reset_of(settings, spec_from_fields({}), Change(), Circumstances())
    return Kept(proposal, None)  # type: ignore[arg-type]


def test_a_second_reset_does_not_replace_that_of_another_setting() -> None:
    both = with_kept([kept(MEMORY)], kept(DELAY))
    assert together([each.proposal for each in both]).settings == {
        "work_mem": "4MB",
        "commit_delay": "0",
    }
    assert len(with_kept(both, kept(DELAY, MEMORY))) == 1


def test_nothing_is_predicted_of_a_reset() -> None:
    proposal = reset_of([DELAY, MEMORY, NAPTIME], spec_from_fields({}), Change(), Circumstances())
    assert proposal.prediction is None
    assert proposal.durability_class == "D0"


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        ("16384", "8kB", "128MB"),
        ("1024", "MB", "1GB"),
        ("300", "s", "5min"),
        ("200", "ms", "200ms"),
        ("1000", None, "1000"),
        ("0", "kB", "0"),
        ("-1", "ms", "-1"),
        ("0.2", "ms", "0.2"),
        ("8192", "B", "8kB"),
        ("", None, ""),
    ],
)
def test_a_built_in_value_is_shown_as_the_server_does(
    value: str, unit: str | None, shown: str
) -> None:
    assert with_unit(value, unit) == shown
