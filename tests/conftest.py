"""Fixtures that every test may use: running servers of the versions that the tests cover.

``pg18`` is the embedded server and ``pg15`` the first installed one of that version (skipped when
there is none); ``pg`` runs a test on both. They live for the whole session and are shared: a test
that changes settings or kills the server makes a cluster of its own with ``new_cluster``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from pgdyno.disk import dismantle
from pgdyno.errors import SetupError
from pgdyno.server import Cluster, Installation, find_installation, restore_all_leftovers, sweep

pytest_plugins = ["pooler_fixtures"]
# Property tests find faults of the code, not of a busy machine.
settings.register_profile("pgdyno", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pgdyno")


@pytest.fixture(scope="session", autouse=True)
def _pgdyno_home() -> Iterator[None]:
    """State of its own for the test session; that of sessions that were killed goes."""
    with pytest.MonkeyPatch.context() as patch:
        for left in _left_by_dead_sessions():
            patch.setenv("PGDYNO_HOME", str(left))
            with contextlib.suppress(SetupError):  # Another worker may be removing it.
                sweep(dismantle)
                restore_all_leftovers(quick=True)
            shutil.rmtree(left, ignore_errors=True)
        with _open_directory() as home:
            patch.setenv("PGDYNO_HOME", str(home))
            # Tests run beside each other; those of this limit set it themselves.
            patch.setenv("PGDYNO_MAX_OTHER_PROGRAMS", "100%")
            yield


def _left_by_dead_sessions() -> Iterator[Path]:
    for folder in Path(tempfile.gettempdir()).glob("pgdyno-tests-*-*"):
        pid = folder.name.split("-")[2]
        with contextlib.suppress(OSError):
            ours = folder.stat().st_uid == os.geteuid()
            if ours and pid.isdigit() and not Path("/proc", pid).exists():
                yield folder


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """An empty directory that the server's account can enter, unlike ``tmp_path``."""
    with _open_directory() as directory:
        yield directory


@contextlib.contextmanager
def _open_directory() -> Iterator[Path]:
    prefix = f"pgdyno-tests-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
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


@pytest.fixture(scope="session")
def pg18(installation_of: Callable[[int], Installation]) -> Iterator[Cluster]:
    """A running PostgreSQL 18, shared by the session."""
    with Cluster.create(installation_of(18), {}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def pg15(installation_of: Callable[[int], Installation]) -> Iterator[Cluster]:
    """A running PostgreSQL 15, shared by the session."""
    with Cluster.create(installation_of(15), {}) as cluster:
        yield cluster


@pytest.fixture(scope="session", params=["pg18", "pg15"])
def pg(request: pytest.FixtureRequest) -> Cluster:
    """Each of the shared servers in turn."""
    cluster: Cluster = request.getfixturevalue(request.param)
    return cluster


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


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With PGDYNO_TESTS_SKIP_NOTHING, as in CI, a skipped test is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("PGDYNO_TESTS_SKIP_NOTHING") and reporter and reporter.stats.get("skipped"):
        reporter.write_line("skipped tests are failures here", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
