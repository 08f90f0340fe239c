"""What a front end needs before it starts: Java, Maven, a jar, properties; words for figures."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.errors import SetupError
from pgdyno.front import FrontSettings, _java, application_jar, find_java
from pgdyno.front._java import Java
from pgdyno.front._settings import properties_text
from pgdyno.report.words.front import line
from pgdyno.results.front import FrontConnector, FrontJvm, FrontPool, FrontReading, FrontTimes
from pgdyno.server import ConnInfo
from pgdyno.server.locks import locked

SERVER = ConnInfo("127.0.0.1", 5432, "app", "secret", "shop")
READING = FrontReading(
    schema_version=1,
    url="http://127.0.0.1:8080/",
    at_s=3.0,
    requests_s=512.2,
    failed=2,
    times=FrontTimes(pool_ms=5.04, database_ms=2.6, application_ms=0.5),
    pages=(),
    pool=FrontPool(
        name="HikariCP 7.1.0",
        max=8,
        idle_max=8,
        wait_ms_max=30_000,
        active=8,
        idle=0,
        waiting=12,
        created=1,
        refused=2,
    ),
    connector=FrontConnector(threads_max=20, threads_busy=20, queue=3, connections=23),
    jvm=FrontJvm(cores=0.8, heap_bytes=1 << 24, collection_s=0.0, compile_s=0.0),
)

Program = Callable[[str, str], Path]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Makes programs, which are the only ones on the PATH beside the shell."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("JAVA_HOME", "PGDYNO_FRONT_JAR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pgdyno.server.local.programs._SYSTEM_DIRECTORIES", ())
    tmp_path.chmod(0o755)

    def make(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    return make


@pytest.mark.usefixtures("program")
def test_without_java_the_packages_are_named() -> None:
    with pytest.raises(SetupError, match="needs Java 17 or newer, and there is none") as raised:
        find_java()
    assert raised.value.hint == snapshot(
        "apt-get install openjdk-17-jdk-headless maven, or dnf install java-17-openjdk-devel maven"
    )


@pytest.mark.parametrize(
    ("version", "found"), [("1.8.0_392", "Java 8"), ("11.0.2", "Java 11"), ("", "none")]
)
def test_an_old_java_is_refused(program: Program, version: str, found: str) -> None:
    path = program("java", f"echo 'openjdk version \"{version}\"' >&2")
    with pytest.raises(SetupError, match=f"and {path} is {found}"):
        find_java()


def test_java_is_the_named_one_then_that_of_java_home_then_of_the_path(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {
        major: program(name, f"echo 'openjdk version \"{major}\"' >&2")
        for name, major in (("java", 17), ("home/bin/java", 21), ("named/bin/java", 25))
    }
    assert find_java() == Java(str(paths[17]), 17)
    monkeypatch.setenv("JAVA_HOME", str(paths[21].parents[1]))
    assert find_java().major == 21
    assert find_java(str(paths[25])).major == find_java(str(paths[25].parents[1])).major == 25
    with pytest.raises(SetupError, match="--java names /nowhere, in which there is none"):
        find_java("/nowhere")


def test_without_maven_the_packages_are_named(program: Program, open_dir: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGDYNO_HOME", str(open_dir))
        with pytest.raises(SetupError, match="by Maven, which is not installed") as raised:
            application_jar(Java("/usr/bin/java", 17), print)
    assert "openjdk-17-jdk-headless maven" in (raised.value.hint or "")


def test_a_build_that_fails_says_why_and_leaves_nothing(program: Program, open_dir: Path) -> None:
    program("mvn", "echo Loading; echo '[ERROR] No compiler is provided'; echo '[ERROR] Help'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGDYNO_HOME", str(open_dir))
        with pytest.raises(SetupError, match="cannot be built: No compiler is provided"):
            application_jar(Java("/usr/bin/java", 17), print)
    assert [path.name for path in (open_dir / "cache" / "front").iterdir()] == ["lock"]


@pytest.mark.parametrize("building", [False, True])
def test_what_a_killed_build_left_is_removed(open_dir: Path, *, building: bool) -> None:
    cache = open_dir / "cache" / "front"
    jar = cache / f"pgdyno-front-{_java._digest()}.jar"
    left = cache / "build-left" / "application"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGDYNO_HOME", str(open_dir))
        patch.delenv("PGDYNO_FRONT_JAR", raising=False)
        patch.setattr(_java, "_PACKAGED", Path("/nowhere"))
        left.mkdir(parents=True)
        jar.touch()
        with locked(cache / "lock") if building else nullcontext():
            assert application_jar(Java("/usr/bin/java", 17), print) == jar
    assert left.parent.exists() == building


def test_a_jar_that_is_named_is_used(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "front.jar"
    monkeypatch.setenv("PGDYNO_FRONT_JAR", str(jar))
    java = Java("/usr/bin/java", 17)
    with pytest.raises(SetupError, match="which is no file"):
        application_jar(java, print)
    jar.touch()
    assert application_jar(java, print) == jar


def test_properties_name_what_was_chosen_alone() -> None:
    assert FrontSettings().properties(SERVER) == {
        "host": "127.0.0.1",
        "database.port": "5432",
        "database": "shop",
        "user": "app",
        "password": "secret",
        "pool.kind": "dbcp2",
        "port": "0",
    }
    chosen = FrontSettings(
        "hikari",
        max_total=3,
        max_wait_ms=-1,
        threads=5,
        connections=7,
        rewrite_batched_inserts=True,
    )
    named = replace(SERVER, password=None, options={"sslmode": "require", "sslcrl": ""})
    assert chosen.properties(named).items() >= {
        ("sslmode", "require"),
        ("pool.kind", "hikari"),
        ("pool.max", "3"),
        ("pool.wait_ms", "-1"),
        ("threads", "5"),
        ("connections", "7"),
        ("rewrite_batched_inserts", "true"),
    }
    assert "password" not in chosen.properties(named)


def test_a_value_has_no_meaning_for_java() -> None:
    assert properties_text({"a": "b1= \\\n🔑"}) == (
        "a=b1\\u003d\\u0020\\u005c\\u000a\\ud83d\\udd11\n"
    )


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (replace(SERVER, host="/run/postgresql"), "connects over TCP only"),
        (replace(SERVER, options={"sslcert": "a.crt"}), "sslcert=a.crt: the front end does not"),
    ],
    ids=["socket", "sslcert"],
)
def test_a_server_that_pgjdbc_cannot_reach_is_refused(server: ConnInfo, message: str) -> None:
    with pytest.raises(SetupError, match=message):
        FrontSettings().properties(server)


def test_a_line_says_what_requests_wait_for() -> None:
    assert line(READING) == snapshot(
        "    3.0 s  512 requests/s, 2 failed: pool 5.0 ms, database 2.6 ms, application 0.5 ms,"
        " 8 of 8 connections in use, 12 waiting, 2 without one in time, 1 made, 20 of 20 threads"
        " busy, 3 requests without a thread, 0.80 cores"
    )
    quiet = READING.model_copy(
        update={
            "times": None,
            "failed": 0,
            "pool": READING.pool.model_copy(
                update={
                    "active": 0,
                    "waiting": 0,
                    "created": 0,
                    "refused": 0,
                }
            ),
        }
    )
    assert line(quiet).startswith("    3.0 s  no requests, 0 of 8 connections in use, 20 of 20")
