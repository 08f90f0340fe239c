"""Connections of all layers, added up before a load: what cannot fit, and what may not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgdyno.conduct import Silent, open_session
from pgdyno.errors import SetupError
from pgdyno.server import Cluster
from pgdyno.spec import Spec, spec_from_fields

pytestmark = pytest.mark.server


class Noting(Silent):
    """Keeps the notes."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def spec_of(cluster: Cluster, clients: list[dict[str, Any]], **fields: Any) -> Spec:
    uri = cluster.conninfo.uri_without_password
    return spec_from_fields(
        {
            "server": {"kind": "existing", "conninfo": uri},
            "workload": {"script": "select-only", "scale": 1},
            "clients": clients,
            "load": {"hold": "1s"},
            **fields,
        }
    )


def opened(spec: Spec, folder: Path) -> list[str]:
    watcher = Noting()
    with open_session(spec, run=folder / "run.db", command="run", spec_text="", watcher=watcher):
        return watcher.notes


GROUPS: list[dict[str, Any]] = [
    {"name": "web", "count": 400, "pool": {"max": 12}},
    {"name": "jobs", "count": 6},
]


def test_all_pools_are_added_up(new_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = new_cluster(18, max_connections="24")
    with pytest.raises(SetupError) as caught:
        opened(spec_of(cluster, [*GROUPS, {"name": "parked", "count": 9, "idle": True}]), tmp_path)
    assert caught.value.code == "too-many-connections"
    assert caught.value.message.startswith(
        "the clients need 27 connections (web 12 + parked 9 + jobs 6), and the server has "
    )
    assert ": max_connections = 24, minus " in caught.value.message


def test_instances_have_pools_of_their_own(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = new_cluster(18, max_connections="24")
    groups = [
        {"name": "web", "count": 80, "instances": 8, "pool": {"max": 10}},
        {"name": "api", "count": 7, "instances": 5, "pool": {"max": 4}},
    ]
    with pytest.raises(SetupError) as caught:
        opened(spec_of(cluster, groups), tmp_path)
    assert caught.value.message.startswith(
        "the clients need 87 connections (web 8 × 10 + api 7 of 5 × 4), and the server has "
    )


def test_connections_of_others_are_a_warning(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = new_cluster(18, max_connections="40")
    spec = spec_of(cluster, GROUPS)
    with contextlib.ExitStack() as stack:
        for _ in range(18):
            stack.enter_context(
                psycopg.connect(**{**cluster.conninfo.kwargs(), "application_name": "app"})
            )
        notes = opened(spec, tmp_path)
        [warning] = [note for note in notes if "in use by others" in note]
    assert warning.startswith("warning: the clients need 18 connections (web 12 + jobs 6), and ")
    assert "and 18 in use by others" in warning
    (tmp_path / "alone").mkdir()
    assert not [note for note in opened(spec, tmp_path / "alone") if "in use" in note]
