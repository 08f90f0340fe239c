"""Fixtures that every test may use: running servers of the versions that the tests cover.

``pg18`` is the embedded server and ``pg15`` the first installed one of that version (skipped when
there is none); ``pg`` runs a test on both. They live for the whole session and are shared: a test
that changes settings or kills the server makes a cluster of its own with ``new_cluster``.

With PGDYNO_TESTS_VERSION, as in ``make test-versions``, ``pg`` is a server of that version, and
only the tests that use it are run.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from pgdyno.disk import dismantle
from pgdyno.errors import SetupError
from pgdyno.server import Cluster, Installation, find_installation, restore_all_leftovers, sweep
from pgdyno.server.directories import builds_dir, cache_home
from remains import directories, heed_stop_signals, left_over, remove_clusters

_GIVEN = os.environ.get("PGDYNO_TESTS_VERSION")
VERSION = int(_GIVEN) if _GIVEN else None
"""Major version on which the tests that use ``pg`` are run, instead of on 15 and 18."""
_CACHE = "PGDYNO_TESTS_CACHE"
SPACE_GB_MIN = 5
"""What the clusters, disk images and recordings of all workers take at once, and some more."""
MEMORY = Path("/dev/shm")
MEMORY_GB_MIN = 12
"""For two suites at once, with what the servers themselves take."""
pytest_plugins = ["pooler_fixtures", "front_fixtures"]
heed_stop_signals()
# Where the environment forbids bytecode, as in containers, each worker and each command that a
# test runs would compile everything again: a third of a command's start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# numpy's threads wait in a loop, beside all workers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Property tests find faults of the code, not of a busy machine, and have the same examples every
# time. `make fuzz` has many more, by --hypothesis-profile search.
settings.register_profile(
    "pgdyno",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    max_examples=50,
)
settings.register_profile(
    "search",
    settings.get_profile("pgdyno"),
    derandomize=False,
    max_examples=int(os.environ.get("PGDYNO_TESTS_EXAMPLES", "1000")),
)
settings.load_profile("pgdyno")

_SKIP_NOTHING = bool(os.environ.get("PGDYNO_TESTS_SKIP_NOTHING"))
_BUILT = {"pgdyno._engine", "bokeh", "numpy", "scipy", "tornado"}
"""Modules that ``make build`` installs and ``make quick`` does without."""


class _NotBuilt(MetaPathFinder):
    """Skips the test, or the file of tests, that imports a module that is not installed.

    All have one place and one reason, so that pytest counts them in one line.
    """

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname in _BUILT:
            pytest.skip(f"{fullname} is not installed: make build", allow_module_level=True)


if not _SKIP_NOTHING:
    sys.meta_path.append(_NotBuilt())  # Asked last: others have not found it.


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Iterator[None]:
    """One cache for all workers, which find it in their environment: data directories to clone,
    copied programs, and the front end's jar are made once."""
    if hasattr(config, "workerinput"):
        return (yield)
    with _open_directory() as cache:
        os.environ[_CACHE] = str(cache)
        _compile_little(cache / "java")
        return (yield)


def _compile_little(home: Path) -> None:
    """Make JAVA_HOME a Java that does not compile what runs for seconds as if it ran for days: that
    is half of what the tests of front ends take."""
    given = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(given, "bin", "java") if given else "java")
    if java is None:
        return
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{java}" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "$@"\n')
    for each in (home, program.parent, program):
        each.chmod(0o755)
    os.environ["JAVA_HOME"] = str(home)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Ask once, before servers are made, for the space that they need."""
    if hasattr(session.config, "workerinput"):
        return
    place = tempfile.gettempdir()
    free_gb = shutil.disk_usage(place).free / 1e9
    if free_gb < SPACE_GB_MIN:
        pytest.exit(
            f"{place} has {free_gb:.1f} GB left, and the tests need {SPACE_GB_MIN} GB: make room,"
            " or set TMPDIR to another directory",
            returncode=pytest.ExitCode.USAGE_ERROR,
        )


@pytest.fixture(scope="session", autouse=True)
def _no_clusters_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Of tests that failed, logs and run files stay; what others made, pytest has removed."""
    yield
    remove_clusters(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session", autouse=True)
def _pgdyno_home() -> Iterator[None]:
    """State of its own for the test session; that of sessions that were killed goes."""
    fetched = builds_dir() if VERSION else None
    with pytest.MonkeyPatch.context() as patch:
        for left in _left_by_dead_sessions():
            patch.setenv("PGDYNO_HOME", str(left))
            # Another worker may be removing it.
            with contextlib.suppress(SetupError, OSError):
                sweep(dismantle)
                restore_all_leftovers(quick=True)
            shutil.rmtree(left, ignore_errors=True)
        with _open_directory() as home:
            (home / "cache").symlink_to(os.environ[_CACHE])
            patch.setenv("PGDYNO_HOME", str(home))
            if fetched is not None:
                (home / "builds").symlink_to(fetched)
            # Tests run beside each other; those of this limit set it themselves.
            patch.setenv("PGDYNO_MAX_OTHER_PROGRAMS", "100%")
            yield


def _left_by_dead_sessions() -> Iterator[Path]:
    for folder in Path(_place()).glob("pgdyno-tests-*-*"):
        pid = folder.name.split("-")[2]
        with contextlib.suppress(OSError):
            ours = folder.stat().st_uid == os.geteuid()
            if ours and pid.isdigit() and not Path("/proc", pid).exists():
                yield folder


@pytest.fixture
def engine() -> None:
    """Needed by a test that imports the engine in a process of its own."""
    import pgdyno._engine  # noqa: F401


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """An empty directory that the server's account can enter, unlike ``tmp_path``."""
    with _open_directory() as directory:
        yield directory


@pytest.fixture
def own_home(open_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """State of the test's own: what one leaves to undo is not the next one's.

    What can be made again, such as data directories to clone, is that of the session.
    """
    (open_dir / "cache").symlink_to(cache_home())
    monkeypatch.setenv("PGDYNO_HOME", str(open_dir))
    return open_dir


@cache
def _place() -> str:
    """Return where servers' data go: into memory, if there is room, else to the disk.

    The thousand files of each new server are a fifth of the tests' CPU time on ext4, and nothing of
    them is to outlive the tests.
    """
    disk = tempfile.gettempdir()
    if not MEMORY.is_mount() or not os.access(MEMORY, os.W_OK):
        return disk
    room = os.statvfs(MEMORY)
    runs_programs = not room.f_flag & os.ST_NOEXEC
    roomy = min(room.f_bavail * room.f_frsize, _available_bytes()) > MEMORY_GB_MIN * 1e9
    return str(MEMORY) if runs_programs and roomy else disk


def _available_bytes() -> int:
    text = Path("/proc/meminfo").read_text()
    return 1024 * int(text.partition("MemAvailable:")[2].split()[0])


@contextlib.contextmanager
def _open_directory() -> Iterator[Path]:
    prefix = f"pgdyno-tests-{os.getpid()}-"
    with tempfile.TemporaryDirectory(
        prefix=prefix, dir=_place(), ignore_cleanup_errors=True
    ) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def installation_of() -> Callable[[int], Installation]:
    """The installation of a major version; skips the test when the machine has none."""

    def find(major: int) -> Installation:
        try:
            return find_installation(None, major)
        except SetupError:
            pytest.skip(f"no PostgreSQL {major} on this machine")

    return find


# What a server does of its own accord would come to tests at any moment.
_LEFT_ALONE = {"autovacuum_naptime": "1d", "checkpoint_timeout": "1d"}


@pytest.fixture(scope="session")
def pg18(installation_of: Callable[[int], Installation]) -> Iterator[Cluster]:
    """A running PostgreSQL 18, shared by the session."""
    with Cluster.create(installation_of(18), _LEFT_ALONE) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def pg15(installation_of: Callable[[int], Installation]) -> Iterator[Cluster]:
    """A running PostgreSQL 15, shared by the session."""
    with Cluster.create(installation_of(15), _LEFT_ALONE) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def pg_of_version(installation_of: Callable[[int], Installation]) -> Iterator[Cluster]:
    """A running server of the version in PGDYNO_TESTS_VERSION, shared by the session."""
    assert VERSION is not None
    with Cluster.create(installation_of(VERSION), _LEFT_ALONE) as cluster:
        yield cluster


@pytest.fixture(scope="session", params=["pg_of_version"] if VERSION else ["pg18", "pg15"])
def pg(request: pytest.FixtureRequest) -> Cluster:
    """Each of the shared servers in turn."""
    cluster: Cluster = request.getfixturevalue(request.param)
    return cluster


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Afterwards there is no directory of a server or pooler, and no process, that was not there
    before."""
    before = directories()
    yield
    assert left_over(before) == []


@pytest.fixture
def new_cluster(
    installation_of: Callable[[int], Installation],
) -> Iterator[Callable[..., Cluster]]:
    """Makes started clusters for one test alone: ``new_cluster(18, shared_buffers="64MB")``."""
    made: list[Cluster] = []

    def make(major: int = 18, **settings: str) -> Cluster:
        cluster = Cluster.create(installation_of(major), settings)
        made.append(cluster)
        cluster.start()
        return cluster

    yield make
    for cluster in made:
        cluster.destroy()


_FIRST = ("fault", "server", "exam", "cli", "unit")
"""Folders in the order in which they are played, the longest tests first, others last: files are
given to the workers in this order, and at the end those of a moment are left."""


@pytest.hookimpl(tryfirst=True)  # before those that are long are left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Those that wait for servers begin, and the short ones fill what is left at the end."""
    items.sort(key=_rank)
    for item in items:
        if item.get_closest_marker("alike") and _is_on_15(item):
            item.add_marker("long")
    if VERSION is not None:
        others = [item for item in items if "pg" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip all but unit tests where no engine is built: they start pgdyno and wait for it."""
    if "unit" not in item.path.relative_to(Path(__file__).parent).parts:
        import pgdyno._engine  # noqa: F401


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Skip what needs more than the build has: some that PGDYNO_TESTS_VERSION finds are small."""
    try:
        yield
    except SetupError as problem:
        if VERSION is None or problem.code != "no-program":
            raise
        pytest.skip(problem.message)


def _is_on_15(item: pytest.Item) -> bool:
    """True if the test is one of those for PostgreSQL 15, by fixture or by parameter."""
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return any(each in ("pg15", 15) for each in given)


def _rank(item: pytest.Item) -> int:
    return next((n for n, name in enumerate(_FIRST) if name in item.path.parts), len(_FIRST))


def pytest_collection_finish() -> None:
    """What was collected stays until the end: it need not be looked through again and again."""
    gc.freeze()
    gc.set_threshold(50_000)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With PGDYNO_TESTS_SKIP_NOTHING, as in CI, a skipped test is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if _SKIP_NOTHING and reporter and reporter.stats.get("skipped"):
        reporter.write_line("skipped tests are failures here", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def patient_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a look at plans the time that it takes on a busy machine; it ends when it is done."""
    from pgdyno.conduct import plan_look

    monkeypatch.setattr(plan_look, "SECONDS_MAX", 12.0)
    monkeypatch.setattr(plan_look, "SHARE_MAX", 12.0)
