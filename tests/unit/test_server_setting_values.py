"""Values of settings, judged as PostgreSQL's configuration parser judges them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.errors import UsageError
from pgdyno.server.settings.setting_values import (
    Setting,
    check_value,
    in_base_unit,
    same_value,
    unknown_setting,
)


def make(vartype: str, **fields: object) -> Setting:
    values = {
        "name": "thing",
        "value": "0",
        "unit": None,
        "vartype": vartype,
        "min": None,
        "max": None,
        "enumvals": (),
        "context": "sighup",
        "source": "default",
        "pending_restart": False,
    }
    return Setting(**{**values, **fields})  # type: ignore[arg-type]


SHARED_BUFFERS = make("integer", name="shared_buffers", unit="8kB", min="16", max="1073741823")
DELAY = make("integer", name="wal_writer_delay", unit="ms", min="1", max="10000")
SYNC = make(
    "enum",
    name="synchronous_commit",
    enumvals=("local", "remote_write", "remote_apply", "on", "off"),
)


WAL_COMPRESSION = make(
    "enum", name="wal_compression", value="pglz", enumvals=("pglz", "lz4", "on", "off")
)


@pytest.mark.parametrize(
    ("word", "is_same"),
    [("on", True), ("True", True), ("PGLZ", True), ("lz4", False), ("off", False)],
)
def test_words_that_the_server_takes_for_one_value_are_the_same(word: str, is_same: bool) -> None:
    check_value(WAL_COMPRESSION, word, "18")
    assert same_value(WAL_COMPRESSION, word) == is_same


@pytest.mark.parametrize(
    ("version_num", "methods", "shown"),
    [(180006, ("pglz", "lz4", "zstd"), "pglz"), (190000, ("pglz", "lz4", "zstd"), "zstd"),
     (190000, ("pglz", "lz4"), "lz4"), (190000, ("pglz",), "pglz")],
)  # fmt: skip
def test_the_best_method_of_compression_is_meant_by_on_from_19(
    version_num: int, methods: tuple[str, ...], shown: str
) -> None:
    choices = (*methods, "on", "off")
    setting = make("enum", name="wal_compression", value=shown, enumvals=choices,
                   server_version_num=version_num)  # fmt: skip
    assert [each for each in methods if same_value(replace(setting, value=each), "on")] == [shown]


@pytest.mark.parametrize("word", ["on", "of", "T", "tr", "YES", "n", "0", "1", "off", "false"])
def test_takes_what_the_server_takes_as_boolean(word: str) -> None:
    check_value(make("bool"), word, "18")


@pytest.mark.parametrize("word", ["o", "", "maybe", "2", "onn", "truee"])
def test_refuses_other_booleans(word: str) -> None:
    with pytest.raises(UsageError, match="is not one of on, off"):
        check_value(make("bool"), word, "18")


def test_wrong_choice_reads_as_the_design_says() -> None:
    with pytest.raises(UsageError) as caught:
        check_value(SYNC, "maybe", "18")
    assert caught.value.message == snapshot(
        'synchronous_commit: "maybe" is not one of on, off, local, remote_write, remote_apply'
    )
    assert caught.value.hint == snapshot(
        "PostgreSQL 18 on this server also takes true, false, yes, no, 1, 0"
    )
    check_value(SYNC, "TRUE", "18")


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        (SHARED_BUFFERS, "256MB", 32768),
        (SHARED_BUFFERS, "1 GB ", 131072),
        (SHARED_BUFFERS, "1.5GB", 196608),
        (SHARED_BUFFERS, "0.1GB", 13056),
        (SHARED_BUFFERS, "0x4000", 16384),
        (SHARED_BUFFERS, "010", 8),
        (DELAY, "200ms", 200),
        (DELAY, "0.2s", 200),
        (DELAY, "1500us", 2),
    ],
)
def test_converts_units(setting: Setting, value: str, expected: float) -> None:
    assert in_base_unit(setting, value) == expected


@pytest.mark.parametrize("value", ["12XB", "MB", "", "1,5GB", "256 mb", "5min"])
def test_refuses_what_is_no_amount_of_memory(value: str) -> None:
    with pytest.raises(UsageError):
        check_value(SHARED_BUFFERS, value, "18")


def test_range_is_told_in_units_a_person_uses() -> None:
    with pytest.raises(UsageError) as caught:
        check_value(SHARED_BUFFERS, "64kB", "18")
    assert caught.value.message == snapshot("shared_buffers: 64kB is outside 128kB to 8589934584kB")
    with pytest.raises(UsageError, match="wal_writer_delay: 1min is outside 1ms to 10s"):
        check_value(DELAY, "1min", "18")


def test_a_built_in_constant_cannot_be_set() -> None:
    with pytest.raises(UsageError, match="cannot be changed"):
        check_value(make("integer", context="internal"), "8192", "18")


def test_unknown_names_come_with_those_that_look_like_them() -> None:
    error = unknown_setting("Shared_Bufers", ["shared_buffers", "wal_buffers", "port"], "18")
    assert error.message == snapshot("Shared_Bufers: PostgreSQL 18 has no such setting")
    assert error.hint is not None
    assert error.hint.startswith("did you mean shared_buffers")


@given(st.text(max_size=12), st.sampled_from(["bool", "enum", "integer", "real", "string"]))
def test_any_text_is_taken_or_refused_with_one_clear_error(text: str, vartype: str) -> None:
    setting = make(vartype, unit="kB", min="0", max="100", enumvals=("on", "off"))
    refusal = None
    try:
        check_value(setting, text, "18")
    except UsageError as error:
        refusal = error.message
    if refusal is not None:
        assert refusal.startswith("thing: ")
        assert not refusal.endswith(".")
