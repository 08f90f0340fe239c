"""Stories: what a chapter may be, when it ended as expected, what luck had a part in it."""

from __future__ import annotations

from typing import Any

import drill_runs
import pytest
from inline_snapshot import snapshot

from pgdyno.drill.model import Verified
from pgdyno.errors import UsageError
from pgdyno.record.cut import Cut, LedgerCount, Outcome, Proof
from pgdyno.results.drill import Drill
from pgdyno.scenario.story import as_expected, luck
from pgdyno.spec import spec_from_fields


@pytest.mark.parametrize(
    ("chapter", "complaint"),
    [
        ({}, "a chapter needs vary or settings"),
        (
            {"vary": {"load.protocol": "simple"}, "cuts": 3},
            "variant and cuts can only be used with fault",
        ),
        ({"fault": "kill", "expect": "better"}, '"better" is not an outcome of a drill'),
        (
            {"settings": {"fsync": False}, "expect": "clean"},
            '"clean" is not an outcome of a comparison',
        ),
        ({"run": True, "fault": "kill"}, "a run or a drill"),
        ({"run": True, "expect": "found"}, "a table of findings"),
        ({"run": True, "expect": {"pooler": "better"}}, '"better" is not an outcome of a run'),
        ({"fault": "kill", "expect": "found"}, '"found" is not an outcome of a drill'),
        ({"fault": "kill", "vary": {"disk.wal": ["x"]}}, "a string, a number or a Boolean"),
    ],
)
def test_chapters_that_cannot_be(chapter: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        spec_from_fields({"story": [{"title": "t", **chapter}]})


@pytest.mark.parametrize(
    ("expect", "endings", "met"),
    [
        (None, {"": "lost"}, None),
        ("lost", {"": "lost"}, True),
        ("harmed", {"": "refused"}, True),
        ("harmed", {"": "clean"}, False),
        ("clean", {"a": "clean", "b": "no-fault"}, False),
        ({"a": "clean"}, {"a": "clean", "b": "corrupt"}, True),
        ({"c": "clean"}, {"a": "clean"}, False),
    ],
)
def test_ending_as_expected(expect: Any, endings: dict[str, str], met: bool | None) -> None:
    chapter = {"title": "t", "fault": "kill", "expect": expect}
    if expect is None:
        del chapter["expect"]
    (read,) = spec_from_fields({"story": [chapter]}).story
    assert as_expected(read, endings) is met


def cut(variant: str, outcome: Outcome, **facts: Any) -> Cut:
    verified = Verified(outcome, LedgerCount(acked=9), 0.1, (), "", "")
    promised = not variant.endswith(("start", "resetwal"))
    proof = Proof(happened=True, sentence="it happened", facts={})
    facts = {"promised": promised, **facts}
    return verified.of(drill_runs.cut_with(proof, variant=variant, facts=facts))


def drill(*cuts: Cut) -> Drill:
    return drill_runs.drill_with(cuts, None, fault="wal-device")


def test_a_rescue_that_did_nothing_is_seen() -> None:
    much = {"wal_since_checkpoint_bytes": 40 << 20, "behind_bytes": {"s": 0}}
    little = {"wal_since_checkpoint_bytes": 200, "behind_bytes": {"s": 0}}
    assert luck(drill(cut("promote", "clean", **much))) == []
    (said,) = luck(drill(cut("quiet/promote", "clean", **little)))
    assert said.startswith("quiet/promote: the last checkpoint covered everything")
    by_itself = cut("stopped/resetwal", "clean", **much)
    (said,) = luck(drill(by_itself, cut("stopped/copy-back", "clean", **much)))
    assert said.startswith(
        "stopped/copy-back: pg_resetwal alone, without the standby, succeeded as well"
    )


def test_a_copy_of_a_standby_s_wal_that_was_not_yet_corrupt() -> None:
    behind = {"wal_since_checkpoint_bytes": 40 << 20, "behind_bytes": {"s": 9 << 20}}
    assert luck(drill(cut("behind/copy-back", "corrupt", **behind))) == []
    assert luck(drill(cut("behind/promote", "lost", **behind))) == []
    (said,) = luck(drill(cut("behind/copy-back", "lost", **behind)))
    assert said == snapshot(
        "behind/copy-back: the standby was behind, and the primary had not yet written"
        " a page newer than the standby's WAL; a moment later the copy would have been"
        " corrupt, and the server would have started without an error"
    )
