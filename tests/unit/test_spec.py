"""The spec: what it accepts, what it refuses and how it says so; round trips."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from pgdyno.errors import UsageError
from pgdyno.spec import Change, read_spec, spec_from_fields, spec_schema, spec_to_toml
from pgdyno.spec.standby import StandbySpec, in_words
from pgdyno.spec.units import format_duration, parse_duration_ms, parse_size_bytes

SCENARIOS = Path(__file__).parents[2] / "scenarios"


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("10s", 10_000),
        ("200ms", 200),
        ("5min", 300_000),
        ("1.5 h", 5_400_000),
        ("0", 0),
        ("9us", 0),
    ],
)
def test_durations(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("16MB", 16 << 20), ("8kB", 8192), ("2GB", 2 << 30), ("1B", 1)]
)
def test_sizes(text: str, size_bytes: int) -> None:
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["", "s", "-5s", "10 parsecs", "1e3s", "5", "10S", "16mb"])
def test_durations_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration_ms(text)


@given(st.integers(0, 10**11))
def test_durations_survive_a_round_trip(duration_ms: int) -> None:
    assert parse_duration_ms(format_duration(duration_ms)) == duration_ms


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({}, 'pooler: settings can only be used with a pooler, such as kind = "pgbouncer"'),
        (
            {"pooler.kind": "--pooler", "pooler.settings": "--pooler-set"},
            "--pooler-set can only be used with a pooler, such as --pooler pgbouncer",
        ),
    ],
    ids=["keys", "options"],
)
def test_keys_of_a_message_may_have_other_names(names: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        spec_from_fields({"pooler": {"settings": {"x": "1"}}}, names=names)
    assert caught.value.message == message


def test_a_value_is_no_key_of_a_message() -> None:
    """Although it is spelt like one that an option sets."""
    fields = {"standby": {"manager": "patroni", "manager_settings": {"delay": "1"}}}
    names = {"standby.delay": "--standby-delay", "standby.manager_settings": "--manager-set"}
    with pytest.raises(UsageError, match='--manager-set: "delay" is not among the settings'):
        spec_from_fields(fields, names=names)


def message(fields: dict[str, Any]) -> str:
    with pytest.raises(UsageError) as caught:
        spec_from_fields(fields, where="x.toml")
    hint = f"\nhint: {caught.value.hint}" if caught.value.hint else ""
    return caught.value.message + hint


def test_unknown_keys_are_named_with_a_close_match() -> None:
    assert message({"clients": [{"pool": {"max": 0, "maxwait": "3s"}}]}) == snapshot(
        """\
x.toml: 2 errors in the spec
  clients[0].pool.max: 0: input should be greater than or equal to 1
  clients[0].pool.maxwait: unknown key
hint: did you mean "max_wait"?\
"""
    )


def test_wrong_kinds_of_value() -> None:
    assert message({"clients": 5, "load": {"hold": "10"}, "workload": {"scale": "x"}}) == snapshot(
        """\
x.toml: 3 errors in the spec
  workload.scale: expected an integer, not "x"
  clients: expected an array, not 5
  load.hold: "10" needs a unit (us, ms, s, min, h, d), for example 10s, 200ms or 5min\
"""
    )


def test_a_workload_that_is_not_there() -> None:
    assert message({"workload": {"script": "tpcc"}}) == snapshot(
        'x.toml: workload.script: "tpcc" is not one of tpcb-like, simple-update, select-only,'
        " mixed, business, entity-resolution, ingest, tpcc-like, tpcc-functions"
        ' (for a file, write [{ file = "…", weight = 1 }])'
    )


def test_contradictions() -> None:
    assert message({"server": {"kind": "existing", "version": 15}}) == snapshot(
        "x.toml: server: settings, version and bindir can only be used with kind = embedded;"
        " settings of an existing server are changed only by a trial with --apply"
    )


def test_standbys_that_cannot_be() -> None:
    assert [
        message({"standby": {"count": 1, "mode": "sync"}}),
        message({"standby": {"receivewal": True, "mode": "remote_apply"}}),
        message({"standby": {"count": 1, "receivewal": True, "quorum": 3}}),
        message({"standby": {"count": 1}, "server": {"kind": "existing"}}),
        message({"standby": {"count": 1}, "server": {"settings": {"synchronous_commit": "off"}}}),
    ] == snapshot(
        [
            "x.toml: standby.mode: \"sync\": input should be 'async', 'remote_write', 'on',\
 'remote_apply' or 'local'",
            "x.toml: standby: receivewal applies nothing, so every commit would wait forever\
 with mode = remote_apply; use mode = on to wait for its flush",
            "x.toml: standby: quorum = 3 must not be larger than the number of receivers, 2",
            "x.toml: standby can only be used with server.kind = embedded",
            "x.toml: standby.mode sets synchronous_commit; remove it from server.settings",
        ]
    )


def test_standbys_in_words() -> None:
    specs = [
        StandbySpec(),
        StandbySpec(count=1),
        StandbySpec.model_validate({"count": 2, "mode": "on", "delay": "20ms"}),
        StandbySpec(count=1, receivewal=True, mode="remote_write", quorum=2),
        StandbySpec(receivewal=True, mode="local"),
    ]
    assert [in_words(spec) for spec in specs] == snapshot(
        [
            "no standby",
            "a standby: no commit waits for it",
            "2 standbys, each way 20ms: commits wait for 1 of them (on)",
            "a standby and pg_receivewal: commits wait for 2 of them (remote_write)",
            "pg_receivewal: no commit waits for it",
        ]
    )


def test_syntax_errors_have_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('name = "x"\n[load\n')
    with pytest.raises(UsageError, match=r"not valid TOML: .*line 2, column 6"):
        read_spec(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "missing.toml", tmp_path, binary):
        with pytest.raises(UsageError) as caught:
            read_spec(path)
        assert str(path) in caught.value.message


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.toml")), ids=lambda path: path.stem)
def test_scenarios_are_valid_and_survive_a_round_trip(path: Path) -> None:
    spec, text = read_spec(path)
    assert spec_from_fields(tomllib.loads(spec_to_toml(spec))) == spec
    assert text == path.read_text()


def test_the_published_schema_is_the_models() -> None:
    published = json.loads((SCENARIOS / "pgdyno-spec.schema.json").read_text())
    assert published == spec_schema(), "run make docs"


toml_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "server", "load", "clients", "pool", "max", "hold", "at", "script"]
            )
            | st.text(max_size=5),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*spec_schema()["properties"], "x"]), toml_values))
def test_any_fields_give_a_spec_or_one_usage_error(fields: dict[str, Any]) -> None:
    try:
        spec = spec_from_fields(fields)
    except UsageError as problem:
        assert problem.message
    else:
        assert spec_from_fields(tomllib.loads(spec_to_toml(spec))) == spec


@given(st.text())
def test_any_text_gives_a_spec_or_one_usage_error(text: str) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
        file.write(text.encode("utf-8", "replace").decode("utf-8"))
        file.flush()
        try:
            read_spec(Path(file.name))
        except UsageError as problem:
            assert problem.message


def test_changes_lie_over_one_another() -> None:
    below = Change(settings={"a": "1", "b": "1"}, pool_max={"web": 4})
    above = Change(settings={"b": "2"}, table_options={"t": {"fillfactor": "80"}})
    both = above.over(below)
    assert both.settings == {"a": "1", "b": "2"}
    assert both.pool_max == {"web": 4}
    assert Change.from_json(both.to_json()) == both
    assert not Change()
    assert both


@pytest.mark.parametrize(
    ("counts", "said", "scale"),
    [([16], None, 16), ([4, 3], None, 7), ([16], 2, 2), ([1], None, 1), ([5000], None, 100)],
)
def test_the_default_scale_has_a_row_for_each_client(
    counts: list[int], said: int | None, scale: int
) -> None:
    clients = [{"name": f"g{number}", "count": count} for number, count in enumerate(counts)]
    workload = {} if said is None else {"scale": said}
    spec = spec_from_fields({"name": "x", "clients": clients, "workload": workload})
    assert (spec.workload.scale, spec.workload.scale_given) == (scale, said is not None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("a\0b", "must not contain a zero byte"), ("\udcff", "must be valid UTF-8")],
)
def test_a_text_that_no_server_accepts(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        spec_from_fields({"workload": {"init": {"steps": text}}})
    assert caught.value.message == f"workload.init.steps: {problem}"


@pytest.mark.parametrize(
    ("shape", "faster"),
    [
        ({}, {}),
        ({"steps": [{"at": "1s", "rate": 4}]}, {"steps": [{"at": "1s", "rate": 12}]}),
        (
            {"burst": {"every": "9s", "length": "1s", "rate": 50}},
            {"burst": {"every": "9s", "length": "1s", "rate": 150}},
        ),
        (
            {"sine": {"amplitude": 5, "period": "9s"}},
            {"sine": {"amplitude": 15, "period": "9s"}},
        ),
        ({"day": {"factors": [1] * 24}}, {"day": {"factors": [1] * 24}}),
    ],
)
def test_a_speed_multiplies_all_rates_and_keeps_the_times(
    shape: dict[str, Any], faster: dict[str, Any]
) -> None:
    group = {"name": "steady"}
    before, after = (
        spec_from_fields({"clients": [{"arrival": {"rate": rate, **keys}}, group]})
        for rate, keys in ((10, shape), (30, faster))
    )
    assert before.at_speed(3) == after
