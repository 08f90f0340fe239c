"""Profiles: reading them, values of pgdyno's own, rules, and the search for lines that matter."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pgdyno.cli.compare_options import ProfileOptions, profile_of
from pgdyno.compare._elimination import Elimination, expected_trials
from pgdyno.compare.own_profiles import OWN, MachineSize, own_profile, profile_text
from pgdyno.compare.profile_check import assessments, units_of
from pgdyno.compare.profile_file import conf_lines, parse_profile, read_profile
from pgdyno.errors import UsageError
from pgdyno.remedy import circumstances
from pgdyno.spec import Spec
from pgdyno.stats import PAIRS_MIN, decide, paired_effect


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("work_mem = 8MB", "8MB"),
        ("work_mem 8MB", "8MB"),
        ("Work_Mem='8MB' # sorts", "8MB"),
        ("  work_mem\t=\t'it''s'", "it's"),
        (r"work_mem = 'a\'b\\c'", r"a'b\c"),
        ("work_mem = -1", "-1"),
    ],
)
def test_a_line_is_read_as_the_server_reads_it(text: str, value: str) -> None:
    profile = parse_profile(f"# comment\n\n{text}\n", name="p")
    assert [(each.number, each.setting, each.value) for each in profile.lines] == [
        (3, "work_mem", value)
    ]
    assert not profile.problems


def test_all_lines_that_cannot_be_read_are_named() -> None:
    profile = parse_profile(
        "work_mem\nwork_mem = 4MB\nwork_mem = 8 MB\ninclude 'x'\nwork_mem = 5MB\nwork_mem = 4MB\n",
        name="p",
    )
    assert [each.number for each in profile.problems] == [1, 3, 4]
    assert [each.number for each in profile.repeated] == [2, 5]
    assert profile.settings == {"work_mem": "4MB"}


def test_a_file_of_sql_is_named_once() -> None:
    text = (
        "-- tuned\nALTER SYSTEM SET work_mem = '8MB';\nalter system set jit to off;\n"
        "ALTER SYSTEM RESET wal_buffers;\nselect pg_reload_conf();\n"
    )
    (problem,) = parse_profile(text, name="p").problems
    assert problem.number == 1
    assert "write work_mem = '8MB'" in (problem.hint or "")
    one = parse_profile("jit = off\nALTER SYSTEM SET work_mem TO '8MB'\n", name="p")
    assert [each.number for each in one.problems] == [2]
    assert one.settings == {"jit": "off"}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("1.5GB", "'1.5GB'"),
        ("1e2", "'1e2'"),
        ("1.5e2", "1.5e2"),
        ("16MB", "16MB"),
        ("pg_catalog.english", "'pg_catalog.english'"),
        ("a-b", "a-b"),
        ("", "''"),
        ("it's", "'it''s'"),
        ("a\\b\n", "'a\\\\b\\n'"),
        ("1 GB", "'1 GB'"),
    ],
)
def test_a_value_is_quoted_where_the_server_needs_it(value: str, written: str) -> None:
    (line,) = conf_lines([("x.y", value, "")])
    assert line == f"x.y = {written}"
    assert parse_profile(line, name="p").settings == {"x.y": value}


def test_settings_of_a_spec_are_a_profile(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text('[server.settings]\nwork_mem = "8MB"\njit = false\ncommit_delay = 10\n')
    profile = read_profile(path)
    assert profile.settings == {"work_mem": "8MB", "jit": "off", "commit_delay": "10"}
    assert [each.number for each in profile.lines] == [2, 3, 4]


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("none.conf", None, "profile-unreadable"),
        ("binary.conf", b"\0", "profile-no-text"),
        ("broken.toml", b"x = [", "profile-toml"),
        ("empty.toml", b"name = 'x'", "profile-empty"),
    ],
)
def test_a_file_that_is_no_profile(
    tmp_path: Path, name: str, content: bytes | None, code: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_profile(path)
    assert caught.value.code == code


def test_what_is_written_is_read_again() -> None:
    lines = [("search_path", 'it\'s a, "b"', ""), ("work_mem", "8MB", "D0"), ("x.y", "", "")]
    again = parse_profile("\n".join(conf_lines(lines)), name="p")
    assert [(each.setting, each.value) for each in again.lines] == [line[:2] for line in lines]


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize(
    "machine", [MachineSize(1 << 30, 1.0), MachineSize(512 << 30, 64.0)], ids=str
)
def test_own_profiles_can_be_read(name: str, machine: MachineSize) -> None:
    profile = own_profile(name, machine)
    assert profile.lines
    assert not profile.problems
    assert not profile.repeated


def test_pgtune_has_its_arithmetic() -> None:
    settings = own_profile("pgtune", MachineSize(16 << 30, 8.0)).settings
    assert settings["shared_buffers"] == "4GB"
    assert settings["effective_cache_size"] == "12GB"
    assert settings["maintenance_work_mem"] == "1GB"
    assert settings["work_mem"] == "13617kB"  # 12 GB / ((300 + 8) * 3)
    assert settings["max_parallel_workers_per_gather"] == "4"
    assert settings["huge_pages"] == "try"
    small = own_profile("pgtune", MachineSize(1 << 30, 2.0)).settings
    assert small["wal_buffers"] == "7864kB"
    assert small["work_mem"] == "4MB"
    assert "max_worker_processes" not in small


def test_an_unknown_own_profile_names_the_others() -> None:
    with pytest.raises(UsageError) as caught:
        profile_text("fast", MachineSize(1 << 30, 1.0))
    assert caught.value.code == "profile-unknown"
    assert all(each in str(caught.value.hint) for each in OWN)


def test_a_line_is_assessed_beside_the_others() -> None:
    profile = parse_profile("synchronous_commit = off\nwal_writer_delay = 10s\n", name="p")
    assessed = assessments(profile, circumstances(Spec()))
    assert {each.durability_class for each in assessed.values()} == {"D1"}
    assert all("(30 s)" in each.bound for each in assessed.values())


def test_settings_that_need_each_other_are_one_unit() -> None:
    names = ["work_mem", "max_wal_senders", "jit", "wal_level"]
    assert units_of(names) == [("work_mem",), ("max_wal_senders", "wal_level"), ("jit",)]


def eliminated(count: int, matters: Callable[[set[str], set[str]], bool]) -> Elimination:
    """Run an elimination of ``count`` lines; ``matters`` is asked of the lines tried and those left
    with them."""
    names = [f"s{number}" for number in range(count)]
    search = Elimination([(name,) for name in names])
    while (units := search.next()) is not None:
        tried = {name for unit in units for name in unit}
        gone = {name for unit in search.gone for name in unit}
        search.decide(matters=matters(tried, {*names} - gone))
    assert len(search.kept) + len(search.gone) == count
    assert not search.undecided
    return search


@pytest.mark.parametrize("count", [1, 2, 3, 4, 12, 40])
def test_the_lines_that_matter_are_found(count: int) -> None:
    for first in range(count):
        wanted = {f"s{first}", f"s{count - 1}"}
        search = eliminated(count, lambda tried, _left, wanted=wanted: bool(tried & wanted))
        assert {name for unit in search.kept for name in unit} == wanted
        assert search.trials <= 2 * count


def test_of_two_lines_that_do_the_same_one_stays() -> None:
    same = {"s2", "s9"}
    search = eliminated(12, lambda tried, left: bool(tried & same) and not (left - tried) & same)
    assert search.kept == [("s9",)]


def test_lines_that_act_only_together_stay_together() -> None:
    both = {"s2", "s9"}
    search = eliminated(12, lambda tried, left: both <= left and bool(tried & both))
    assert sorted(search.kept) == [("s2",), ("s9",)]


def test_forty_lines_take_fewer_trials_than_one_by_one() -> None:
    wanted = {"s3", "s17", "s31"}
    search = eliminated(40, lambda tried, _left: bool(tried & wanted))
    assert search.trials < 30
    assert expected_trials(40) < 45


def answered(search: Elimination, answers: list[tuple[bool, float | None]]) -> list[list[str]]:
    """Run an elimination with these answers, by default "no difference"; return what was tried."""
    tried = []
    while (units := search.next()) is not None:
        tried.append([name for unit in units for name in unit])
        matters, gain_max = answers.pop(0) if answers else (False, None)
        search.decide(matters=matters, gain_max=gain_max)
    assert not search.undecided
    return tried


def test_a_line_in_doubt_is_tried_once_more_at_the_end() -> None:
    search = Elimination([("a",), ("b",), ("c",)])
    assert answered(search, [(False, 0.05), (False, 0.2), (False, None), (True, None)]) == [
        *(["a"], ["b"], ["c"]),
        *(["b"], ["a"]),
    ]
    assert search.kept == [("b",)]
    assert search.gone == [("c",), ("a",)]


def test_a_line_in_doubt_has_gone_where_there_is_no_time_to_try_it_again() -> None:
    search = Elimination([("a",), ("b",)])
    for _ in range(2):
        search.next()
        search.decide(matters=False, gain_max=0.1)
    assert search.next() == (("a",),)
    assert search.tries_again
    assert sorted(search.gone) == [("a",), ("b",)]
    assert not search.undecided


def test_a_line_that_stays_in_doubt_goes() -> None:
    search = Elimination([("a",)])
    assert answered(search, [(False, 0.1), (False, 0.1)]) == [["a"], ["a"]]
    assert search.gone == [("a",)]


def test_a_group_in_doubt_is_halved_if_it_matters_after_all() -> None:
    search = Elimination([(f"s{number}",) for number in range(12)])
    groups = answered(search, [(False, 0.1), (False, None), (True, None), (False, None)])
    first = [f"s{number}" for number in range(6)]
    assert groups[2] == first
    assert groups[3] == first[:3]
    assert [name for unit in search.gone for name in unit].count("s0") == 1
    assert len(search.kept) + len(search.gone) == 12


def test_if_one_half_is_in_doubt_the_other_one_is_not_known_to_matter() -> None:
    search = Elimination([(f"s{number}",) for number in range(12)])
    groups = answered(search, [(True, None), (False, 0.1)])
    assert groups[:3] == [[f"s{n}" for n in range(6)], ["s0", "s1", "s2"], ["s3", "s4", "s5"]]
    assert groups[-1] == ["s0", "s1", "s2"]
    assert not search.kept


def test_an_ablation_keeps_its_word_with_noise() -> None:
    """With six noisy pairs a trial, lines of 20 % are kept and most others are not; the interval of
    the fresh pairs contains the true effect of what was kept, whatever was kept."""
    rng = random.Random(7)
    effects = {"s1": math.log(1.2), "s8": math.log(1.5)}
    spread = 0.04
    runs, found, false, covered = 150, 0, 0, 0

    def pairs(effect: float, count: int) -> tuple[list[float], list[float]]:
        levels = [math.exp(rng.gauss(0, 0.25)) for _ in range(count)]
        return levels, [level * math.exp(rng.gauss(effect, spread)) for level in levels]

    def matters(tried: set[str], _left: set[str]) -> bool:
        measured = paired_effect(*pairs(sum(effects.get(name, 0.0) for name in tried), PAIRS_MIN))
        return decide(measured).outcome == "better"

    for _ in range(runs):
        kept = {name for unit in eliminated(12, matters).kept for name in unit}
        found += effects.keys() <= kept
        false += len(kept - effects.keys())
        true = sum(effects.get(name, 0.0) for name in kept)
        last = paired_effect(*pairs(true, 12), confidence=0.975)
        covered += last.lo <= math.exp(true) <= last.hi
    assert found / runs > 0.95
    assert false / runs < 0.3
    assert covered / runs > 0.95


@pytest.mark.parametrize("name", ["", " "], ids=["nothing", "blank"])
def test_an_empty_name_is_not_taken_for_a_directory(name: str) -> None:
    with pytest.raises(UsageError) as raised:
        profile_of(ProfileOptions(profile=name))
    assert raised.value.code == "empty-option"
    assert all(each in str(raised.value.hint) for each in OWN)
