"""Instances of an application in a spec: their connections, and names of groups for the server."""

from __future__ import annotations

from typing import Any

import pytest

from pgdyno.conduct._config import application_name
from pgdyno.errors import UsageError
from pgdyno.spec import spec_from_fields
from pgdyno.spec.connections import clients_of_instances, kept_connections, pooled_connections


def group(**fields: Any) -> dict[str, Any]:
    return {"name": "web", "count": 80, **fields}


@pytest.mark.parametrize(
    ("fields", "connections"),
    [
        ({"instances": 8, "pool": {"max": 10}}, 80),
        ({"instances": 8, "pool": {"max": 4}}, 32),
        ({"instances": 8, "pool": {"max": 20}}, 80),
        ({"instances": 8, "pool": {"max": 20, "min_idle": 5}}, 120),
        ({"pool": {"max": 10}}, 10),
        ({}, 80),
    ],
)
def test_each_instance_has_a_pool(fields: dict[str, Any], connections: int) -> None:
    (only,) = spec_from_fields({"clients": [group(**fields)]}).clients
    assert only.connections_max == connections


def test_clients_take_turns() -> None:
    assert clients_of_instances(7, 3) == [3, 2, 2]
    assert clients_of_instances(2, 3) == [1, 1, 0]
    assert pooled_connections(7, 2, 3) == 6
    assert pooled_connections(2, 2, 3) == 2
    kept = kept_connections({"clients": [group(instances=8, pool={"max": 4})]})["web"]
    assert kept.expected(16) == 16
    assert kept.expected(80) == 32


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"instances": 0, "pool": {"max": 2}}, "instances"),
        ({"instances": 8}, "instances differ in their pools only"),
        ({"instances": "many", "pool": {"max": 2}}, "instances"),
    ],
)
def test_instances_without_sense_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        spec_from_fields({"clients": [group(**fields)]})


def test_names_never_collide() -> None:
    names = ["web", "Büro", "B?ro", "x" * 57, "x" * 56 + "y", "/2 B?ro", "probe", "x" * 56]
    spec = spec_from_fields({"clients": [{"name": name, "count": 1} for name in names]})
    found = [application_name(spec, each) for each in spec.clients]
    assert found[0] == "pgdyno/web"
    assert found[1] == "pgdyno//2 B?ro"
    assert len(set(found)) == len(names)
    assert all(len(each) <= 63 and each.isascii() for each in found)
    assert not any(each.startswith("pgdyno ") for each in found)
