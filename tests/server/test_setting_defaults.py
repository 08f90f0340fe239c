"""The defaults in ``spec/server_settings.py`` are those that servers have built in."""

from __future__ import annotations

import re

import psycopg
import pytest

from pgdyno.server import Cluster
from pgdyno.spec.server_settings import AUTOVACUUM, DEFAULTS

pytestmark = pytest.mark.server
SINCE_18 = {"autovacuum_vacuum_max_threshold"}
UNITS = {"": 1, "us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "kB": 1, "MB": 1024, "GB": 1 << 20}


def base(value: str, unit: str | None) -> float | str:
    """A number in milliseconds or kB; any other value as it is."""
    match = re.fullmatch(r"(-?[0-9.]+) ?(us|ms|s|min|kB|MB|GB|)", value)
    return float(match[1]) * UNITS[match[2] or unit or ""] if match else value


def test_every_default_is_the_server_s(pg: Cluster) -> None:
    defaults = DEFAULTS | AUTOVACUUM
    with psycopg.connect(**pg.conninfo.kwargs()) as conn:
        rows = conn.execute(
            "select name, boot_val, unit from pg_settings where name = any (%s)", [list(defaults)]
        ).fetchall()
        since_18 = set() if conn.info.server_version >= 180_000 else SINCE_18
    assert {name for name, _, _ in rows} == {*defaults} - since_18
    for name, boot_value, unit in rows:
        unit = None if boot_value == "0" else unit
        assert base(boot_value, unit) == base(defaults[name], None), name
