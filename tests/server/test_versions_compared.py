"""Two real versions in turn on one address, their defaults levelled, and their vacuums."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgdyno.compare import _written
from pgdyno.compare._levelling import Levelling, level
from pgdyno.compare.versions import compare_versions, server_keys, with_server
from pgdyno.conduct import Session, Silent, check_turns, open_session
from pgdyno.errors import PgdynoError, SetupError, UsageError
from pgdyno.facts.slices import Facts
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.results import load
from pgdyno.server import Cluster, Installation, connect_plain
from pgdyno.spec import Change, Spec, spec_from_fields
from pgdyno.stats import PairedEffect
from pgdyno.stats._plan import PairPlan
from pgdyno.trial import pairs

pytestmark = pytest.mark.server
Pair = tuple[Installation, Installation]


@pytest.fixture(scope="module")
def pair(installation_of: Callable[[int], Installation]) -> Pair:
    return installation_of(15), installation_of(18)


def spec_of(first: Installation, **more: object) -> Spec:
    fields = {
        "workload": {"scale": 1},
        "clients": [{"name": "web", "count": 2, "think": "20ms"}],
        "load": {"max_other_programs": 1, "seed": 5},
        **more,
    }
    return with_server(spec_from_fields(fields), first)


@pytest.fixture(scope="module")
def session(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    path = tmp_path_factory.mktemp("versions") / "run.db"
    with open_session(
        spec_of(pair[0]), run=path, command="compare", spec_text="", watcher=Silent()
    ) as opened:
        yield opened


@pytest.fixture(scope="module")
def levelling(session: Session, pair: Pair) -> Levelling:
    change = Change(spec=server_keys(pair[1]))
    session.provide(change)
    assert session.target.others is not None
    builds = session.target.others.build({}), session.target.others.build(change.spec)
    return level(builds, pair, chosen=())


@pytest.fixture(scope="module")
def levelled(session: Session, pair: Pair, levelling: Levelling) -> Change:
    change = Change(spec={**server_keys(pair[1]), **levelling.keys("after")})
    session.provide(change)
    return change


def asked(session: Session, what: str) -> str:
    with connect_plain(session.target.conninfo) as conn:
        row = conn.execute(what.encode()).fetchone()
    assert row is not None
    return str(row[0])


def sound_slice(session: Session) -> int:
    """Measure slices until one is not void, as it may be on a busy machine."""
    for _ in range(20):
        slice_id = session.slice(0.3, kind="trial")
        run = session.reader()
        if run.slice(slice_id).void is None and run.ledger([slice_id]).done:
            return slice_id
    pytest.fail("all slices are void")


def test_the_defaults_that_differ_are_found(levelling: Levelling) -> None:
    found = {each.name: (each.before, each.after, each.levelled) for each in levelling.levelled}
    assert found["data_checksums"] == ("off", "on", "off")
    assert found["io_method"] == (None, "worker", "sync")
    assert found["effective_io_concurrency"] == ("1", "16", "1")
    assert "io_workers" not in found
    assert "port" not in found
    assert levelling.settings["before"] == {}


def test_each_server_takes_its_turn_with_tables_of_its_own(
    session: Session, pair: Pair, levelling: Levelling, levelled: Change
) -> None:
    shipped = Change(spec=server_keys(pair[1]))
    seen = {}
    for name, change in (("18", shipped), ("levelled", levelled), ("15", Change())):
        session.prepare(change)
        seen[name] = (
            asked(session, "show server_version").split(".")[0],
            asked(session, "show data_checksums"),
            asked(session, "select count(*) from public.pgbench_accounts"),
        )
    assert seen == {
        "18": ("18", "on", "100000"),
        "levelled": ("18", "off", "100000"),
        "15": ("15", "off", "100000"),
    }
    session.prepare(levelled)
    for name, value in levelling.settings["after"].items():
        assert asked(session, f"show {name}") == value


def test_a_slice_of_each_is_not_void_and_its_own(session: Session, pair: Pair) -> None:
    change = Change(spec=server_keys(pair[1]))
    ids = []
    for each in (Change(), change, Change()):
        session.apply(each, warm_up_s_max=0.1)
        ids.append(sound_slice(session))
        session.interrupt_load()
    run = session.reader()
    assert len({each.system_identifier for each in run.sightings() if each.slice_id in ids}) == 2


@pytest.mark.long
def test_all_that_two_versions_are_compared_by(
    session: Session, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole comparison with two pairs in each trial: the six of a verdict take minutes."""
    alike = PairedEffect(1.0, 0.9, 1.1, 6, 0.05)
    noise = pairs.Noise(alike, alike, "throughput")
    monkeypatch.setattr("pgdyno.compare.change.measure_noise", lambda *_, **__: noise)
    monkeypatch.setattr(pairs, "plan_of", lambda *_, **__: PairPlan(2, 2))
    monkeypatch.setattr(Session, "_warm_up", lambda *_: None)
    monkeypatch.setattr(_written, "ROWS", 30_000)
    monkeypatch.setattr(_written, "SECONDS", 0.5)
    monkeypatch.setattr(_written, "_SETTLE_SECONDS", 0.1)
    session.prepare(Change())
    result = compare_versions(session, pair, budget_s=1.0, slice_s=0.4, pairs_max=None)
    assert result.versions is not None
    shipped, levelled = result.versions.trials
    assert (shipped.levelled, levelled.levelled) == (False, True)
    # With checksums, the whole page is written before it is pruned; without them, what is left.
    assert 1.5 < shipped.vacuum.wal_bytes.after / levelled.vacuum.wal_bytes.after < 2.0
    assert shipped.vacuum.wal_bytes.before == pytest.approx(levelled.vacuum.wal_bytes.before, 0.1)
    assert result.plans is not None
    assert result.plans.statements > 0
    run = session.reader()
    assert load(run) == result
    counted = run.slices(kind="wal")
    assert len(counted) == 2 * 4
    assert all(each.change["settings"] == {"full_page_writes": "off"} for each in counted)
    for each in (part for part in counted if part.void is None):
        assert (Facts(run, [each.id]).wal.full_page_images or 0) < 0.5 * run.ledger([each.id]).done
    assert asked(session, "show full_page_writes") == "on"
    found = {each.name: each for each in result.versions.levelled}
    checksums = found["data_checksums"]
    assert (checksums.before, checksums.after, checksums.levelled) == ("off", "on", "off")
    assert checksums.by == "initdb"
    said = " ".join(line.text for line in summary_lines(run, 200))
    assert "data_checksums off → on" in said


def test_a_build_without_an_extension_of_the_load_is_refused(pair: Pair, tmp_path: Path) -> None:
    """The wheel is built without SSL, and so without sslinfo."""
    setup = tmp_path / "setup.sql"
    setup.write_text("create extension if not exists sslinfo;\n")
    script = tmp_path / "one.sql"
    script.write_text("select 1;\n")
    work = {"script": [{"file": str(script)}], "setup": str(setup)}
    with (
        open_session(
            spec_of(pair[0], workload=work),
            run=tmp_path / "run.db",
            command="compare",
            spec_text="",
            watcher=Silent(),
        ) as session,
        pytest.raises(UsageError) as caught,
    ):
        session.provide(Change(spec=server_keys(pair[1])))
    said = caught.value.message
    assert re.match(r"PostgreSQL 18\.\d+ in .*: this build has no extension sslinfo", said)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"standby": {"count": 1}}, "standby"),
        ({"server": {"mxid_age": "1000"}}, "server.mxid_age"),
    ],
)
def test_what_only_one_of_them_could_have_is_refused(keys: dict[str, object], named: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_turns(spec_from_fields(keys))
    assert caught.value.message.startswith(f"{named} cannot be used where two versions")


def test_a_disk_for_the_wal_is_of_one_of_them(pair: Pair, tmp_path: Path) -> None:
    with (
        open_session(
            spec_of(pair[0], disk={"wal": "plain"}),
            run=tmp_path / "run.db",
            command="compare",
            spec_text="",
            watcher=Silent(),
        ) as session,
        pytest.raises(UsageError, match="WAL has a disk of its own"),
    ):
        session.provide(Change(spec=server_keys(pair[1])))


def test_a_running_server_has_no_other_version(pg18: Cluster, pair: Pair, tmp_path: Path) -> None:
    spec = spec_from_fields(
        {"server": {"kind": "existing", "conninfo": pg18.conninfo.uri_without_password}}
    )
    with (
        open_session(
            spec, run=tmp_path / "run.db", command="compare", spec_text="", watcher=Silent()
        ) as session,
        pytest.raises(PgdynoError) as caught,
    ):
        session.provide(Change(spec=server_keys(pair[1])))
    assert isinstance(caught.value, SetupError)
    assert caught.value.code == "version-of-yours"
