"""Settings of a source: those that a clone gets, those that it never gets, and those that win over
them."""

from __future__ import annotations

from typing import Any

import pytest

from pgdyno.clone.settings import matters, settings_here, value_in_words
from pgdyno.conduct.source_settings import with_source_settings
from pgdyno.spec import spec_from_fields

GIB = 1 << 30


@pytest.mark.parametrize(
    "name",
    [
        *("work_mem", "wal_compression", "enable_seqscan", "random_page_cost", "jit_above_cost"),
        *("autovacuum_naptime", "synchronous_commit", "log_min_duration_statement", "fsync"),
    ],
)
def test_what_matters_to_a_load(name: str) -> None:
    assert matters(name)


@pytest.mark.parametrize(
    "name",
    [
        *("archive_command", "restore_command", "shared_preload_libraries", "jit_provider"),
        *("local_preload_libraries", "log_destination", "log_directory", "listen_addresses"),
        *("port", "data_directory", "ssl_key_file", "primary_conninfo", "log_line_prefix"),
        *("synchronous_standby_names", "max_connections", "huge_pages", "WORK_MEM", "work_mem "),
    ],
)
def test_what_a_clone_never_gets(name: str) -> None:
    assert not matters(name)
    kept, notes = settings_here({name: "1"}, [], GIB)
    assert not kept
    assert name in " ".join(notes)


@pytest.mark.parametrize("value", ["on\nport = 1", "'; x", "", "$1", "a#b"])
def test_a_value_that_is_no_word_is_left_out(value: str) -> None:
    assert settings_here({"work_mem": value}, [], GIB)[0] == {}


@pytest.mark.parametrize(
    ("number", "unit", "words"),
    [
        *(("16384", "8kB", "128MB"), ("100", "8kB", "800kB"), ("300", "s", "5min")),
        *(("200", "ms", "200ms"), ("0.5", "ms", "0.5ms"), ("-1", "kB", "-1"), ("0", "ms", "0")),
        *(("0.9", None, "0.9"), ("on", None, "on"), ("repeatable read", None, "repeatable read")),
    ],
)
def test_values_have_their_unit(number: str, unit: str | None, words: str) -> None:
    assert value_in_words(number, unit) == words


def test_shared_buffers_are_as_many_as_fit() -> None:
    source = {"shared_buffers": "64GB", "work_mem": "8MB"}
    kept, notes = settings_here(source, [], 8 * GIB)
    assert kept == {"shared_buffers": "2048MB", "work_mem": "8MB"}
    assert notes == ["shared_buffers is 64GB on the source, and 2GB here: a quarter of the memory"]
    assert settings_here({"shared_buffers": "1GB"}, [], 8 * GIB) == ({"shared_buffers": "1GB"}, [])


def test_fsync_is_kept_and_said() -> None:
    kept, notes = settings_here({"fsync": "off"}, [], GIB)
    assert kept == {"fsync": "off"}
    assert len(notes) == 1


SOURCE = {"work_mem": "8MB", "synchronous_commit": "off", "wal_level": "minimal"}


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        ({}, SOURCE),
        ({"server": {"settings": {"Work_Mem": "1MB"}}}, {**SOURCE, "Work_Mem": "1MB"}),
        ({"standby": {"count": 1}}, {**SOURCE, "synchronous_commit": None}),
        ({"server": {"xid_age": 1_000_000_000}}, {**SOURCE, "wal_level": None}),
        ({"server": {"kind": "existing", "conninfo": "dbname=x"}}, {}),
    ],
)
def test_what_the_spec_says_comes_first(
    fields: dict[str, Any], settings: dict[str, str | None]
) -> None:
    spec, notes = with_source_settings(spec_from_fields({"name": "x", **fields}), SOURCE)
    expected = {name: value for name, value in settings.items() if value is not None}
    if "Work_Mem" in expected:
        del expected["work_mem"]
    assert spec.server.settings == expected
    assert bool(notes) == (spec.server.kind == "existing")
    spec_from_fields(spec.model_dump(mode="json", by_alias=True, exclude_none=True))
