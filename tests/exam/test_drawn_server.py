"""The exam of drawn causes on real servers: each is planted and undone, and nothing of it stays."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from exam.drawn.causes import entries
from exam.drawn.model import Draft, Entry, Load, Script, ServerFacts
from exam.drawn.schema import drawn_names
from exam.drawn.statements import ALL, BY_NAME
from exam.drawn.world import World, facts_of, shape_of
from pgdyno.server import Cluster, Installation

_STATE = (
    "select name, setting, source from pg_settings where source not in ('default', 'client')"
    " and name not like 'transaction%' order by name",
    "select setdatabase::text, setrole::text, setconfig::text from pg_db_role_setting",
    "select indexrelid::regclass::text, indrelid::regclass::text, '' from pg_index"
    " where indrelid > 16384 order by 1",
    "select tgname::text, tgrelid::regclass::text, '' from pg_trigger where not tgisinternal",
    "select proname::text, prosrc, provolatile::text from pg_proc where oid > 16384 order by 1",
    "select relname::text, coalesce(reloptions::text, ''), '' from pg_class where oid > 16384"
    " and relkind in ('r', 'p') order by 1",
    "select attrelid::regclass::text, attname::text, coalesce(attoptions::text, '')"
    " || coalesce(attstattarget, -1) from pg_attribute where attrelid > 16384 order by 1, 2",
    "select count(*)::text, '', '' from pg_statistic where starelid > 16384",
)
_PARTS = frozenset(part for each in ALL for part in each.needs)


@pytest.fixture(scope="module")
def cluster(installation_of: Callable[[int], Installation]) -> Iterator[Cluster]:
    """A server of the module's own, as causes change its settings."""
    made = Cluster.create(installation_of(18), {})
    made.start()
    yield made
    made.destroy()


@pytest.fixture(scope="module")
def server(cluster: Cluster) -> ServerFacts:
    return facts_of(cluster, 18)


def small_world(cluster: Cluster, folder: Path, entry: Entry | None = None, **more: Any) -> World:
    """A world with small tables, all parts, and a load with a statement that fits."""
    names = replace(
        drawn_names(random.Random(1), entry and entry.partitions),
        **{"parents": 50, "children": 600, "logs": 300, "smalls": 20, "kinds": 20, **more},
    )
    names = replace(names, partitions=min(names.partitions, 4))
    wanted = entry.loads[0] if entry and entry.loads else "by-key"
    text = names.fill(BY_NAME[wanted].text)
    load = Load(names, _PARTS, (wanted,), (Script(text, 1),), "prepared", 4, None)
    world = World(cluster, load, folder)
    world.execute(["drop schema public cascade", "create schema public"])
    world.set_up()
    return world


def state_of(world: World) -> list[tuple[Any, ...]]:
    """What the causes may change: settings, objects of the database, statistics."""
    with world.connect() as connection:
        return [row for query in _STATE for row in connection.execute(query.encode()).fetchall()]


@pytest.mark.alike
@pytest.mark.parametrize("entry", entries(), ids=lambda each: each.name)
def test_each_cause_can_be_planted_and_undone(
    entry: Entry, cluster: Cluster, server: ServerFacts, tmp_path: Path
) -> None:
    world = small_world(cluster, tmp_path, entry)
    fault = entry.drawn(Draft(random.Random(entry.name), server, world.load.names))
    if fault is None:
        assert entry.name in ("jit",), "this build has what the others need"
        return
    before, load = state_of(world), world.shape
    try:
        world.switch([fault])
        planted, planted_load = state_of(world), world.shape
        world.switch([])
        assert world.shape == load
        undone = state_of(world)
        if fault.bait:
            assert planted == before
            assert undone != before
        else:
            changes = planted != before or planted_load != load or bool(fault.beside)
            assert changes, "nothing was planted"
            assert undone == before
        world.switch([fault])
        assert state_of(world) == planted
    finally:
        world.switch([])
        world.close()


@pytest.mark.alike
def test_a_setting_that_two_causes_have_is_that_of_the_later_one(
    cluster: Cluster, server: ServerFacts, tmp_path: Path
) -> None:
    world = small_world(cluster, tmp_path)
    (entry,) = (each for each in entries() if each.name == "work-mem")
    first = entry.drawn(Draft(random.Random(1), server, world.load.names))
    assert first is not None
    first = replace(first, settings={"work_mem": "64kB"}, scope="system")
    second = replace(first, entry="promise", settings={"work_mem": "16MB"})

    def shown() -> str:
        with world.connect() as connection:
            (row,) = connection.execute("show work_mem").fetchall()
        return str(row[0])

    world.switch([first, second])
    assert shown() == "16MB"
    world.switch([first])
    assert shown() == "64kB"
    world.switch([])
    assert shown() == "4MB"


@pytest.mark.alike
@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
def test_each_kind_of_statement_can_be_executed(
    protocol: str, cluster: Cluster, tmp_path: Path
) -> None:
    world = small_world(cluster, tmp_path, children=9000, logs=100)
    names = world.load.names
    scripts = tuple(Script(names.fill(each.text), 1) for each in ALL)
    world.load = replace(world.load, scripts=scripts, protocol=protocol)
    files = [word for path, _ in world.scripts() for word in ("-f", f"{path}@1")]
    address = cluster.conninfo
    for index in range(0, len(files), 2):
        done = subprocess.run(
            [
                cluster.installation.binary("pgbench"),
                *("-n", "-t", "2", "-M", protocol, "-h", address.host, "-p", str(address.port)),
                *("-U", address.user, *files[index : index + 2], address.database),
            ],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    assert shape_of(world.load, []).protocol == protocol
