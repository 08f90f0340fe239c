"""Java, Maven, and the jar of the application: one that is there, or built once by Maven and kept
in the cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from pgdyno.errors import SetupError
from pgdyno.server.directories import cache_home, shared_directory
from pgdyno.server.local.account import run_as
from pgdyno.server.local.guarded import Guarded, log_text
from pgdyno.server.local.programs import find_program
from pgdyno.server.locks import locked, try_lock

VERSION_MIN = 17
_PACKAGES = (
    "apt-get install openjdk-17-jdk-headless maven, or dnf install java-17-openjdk-devel maven"
)
_ANSWER_S_MAX = 60.0
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_BUILD_S_MAX = 900.0
_ELSEWHERE = "PGDYNO_FRONT_JAR names one that was built elsewhere"


class Java(Struct, frozen=True):
    """A Java that can run the front end."""

    program: str
    major: int


def find_java(named: str | None = None) -> Java:
    """Return the Java to use: the one that is ``named``, of JAVA_HOME, or of the PATH.

    ``named`` is the program or its home. Raises SetupError if there is none, or it is too old.
    """
    program, where = _program(named)
    if program is None:
        raise SetupError(
            f"the front end needs Java {VERSION_MIN} or newer, and {where}",
            code="front-java",
            hint=_PACKAGES,
        )
    major = _major_of(program)
    if major < VERSION_MIN:
        raise SetupError(
            f"the front end needs Java {VERSION_MIN} or newer, and {program} is"
            f" {f'Java {major}' if major else 'none'}",
            code="front-java-version",
            hint=f"name another with --java or JAVA_HOME, or {_PACKAGES}",
        )
    return Java(program, major)


def find_maven() -> str:
    """Return the path of Maven. Raises SetupError."""
    found = find_program("mvn")
    if found is None:
        raise SetupError(
            "the front end is built once, by Maven, which is not installed",
            code="front-maven",
            hint=f"{_PACKAGES}; PGDYNO_FRONT_JAR names one that was built elsewhere",
        )
    return found


def _program(named: str | None) -> tuple[str | None, str]:
    """Return the path of Java, or ``None`` and why there is none."""
    home = os.environ.get("JAVA_HOME")
    for given, origin in ((named, "--java"), (home, "JAVA_HOME")):
        if given:
            path = Path(given)
            path = path / "bin" / "java" if path.is_dir() else path
            return shutil.which(path), f"{origin} names {given}, in which there is none"
    return find_program("java"), "there is none on this machine"


def _major_of(program: str) -> int:
    """Return the major version; 0 for a program that is no Java."""
    try:
        answer = run_as(None, [program, "-version"], seconds_max=_ANSWER_S_MAX)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(answer.stderr + answer.stdout)
    if found is None:
        return 0
    # Java 8 calls itself 1.8.
    return int(found[2] or 0) if found[1] == "1" else int(found[1])


_SOURCES = Path(__file__).with_name("application")
_PACKAGED = Path(__file__).with_name("pgdyno-front.jar")
_BUILT = Path("target", "pgdyno-front.jar")
_LOCK, _BUILDING = "lock", "build-"


def application_jar(java: Java, note: Callable[[str], None]) -> Path:
    """Return the jar of PGDYNO_FRONT_JAR, of the package, or of the cache, in which it is built if
    it is missing; ``note`` is called before that. Raises SetupError."""
    if given := os.environ.get("PGDYNO_FRONT_JAR"):
        return _given(Path(given))
    if _PACKAGED.exists():
        return _PACKAGED
    cache = shared_directory(cache_home() / "front")
    _remove_left(cache)
    jar = cache / f"pgdyno-front-{_digest()}.jar"
    if not jar.exists():
        with locked(cache / _LOCK):
            if not jar.exists():  # Another pgdyno may have built it meanwhile.
                note("building the front end with Maven, once: this takes up to a minute")
                _build(java, jar)
    return jar


def _remove_left(cache: Path) -> None:
    """Remove the directories in which a killed pgdyno was building; the lock is that of the one
    that builds now."""
    left = list(cache.glob(f"{_BUILDING}*"))
    if left and (lock := try_lock(cache / _LOCK)) is not None:
        for each in left:
            shutil.rmtree(each, ignore_errors=True)
        os.close(lock)


def _given(jar: Path) -> Path:
    if not jar.is_file():
        raise SetupError(
            f"PGDYNO_FRONT_JAR names {jar}, which is no file",
            code="front-jar",
            hint="without it, the front end is built by Maven",
        )
    return jar.absolute()


def _sources() -> list[Path]:
    found = [_SOURCES / "pom.xml", *(_SOURCES / "src").rglob("*")]
    return sorted(path for path in found if path.is_file())


def _digest() -> str:
    """Return a name for this state of the sources."""
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(f"{path.relative_to(_SOURCES)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _build(java: Java, jar: Path) -> None:
    maven = find_maven()
    with tempfile.TemporaryDirectory(dir=jar.parent, prefix=_BUILDING) as name:
        place = Path(name, "application")
        for path in _sources():
            target = place / path.relative_to(_SOURCES)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        log = Path(name, "maven.log")
        command = [maven, "--batch-mode", "--quiet", "--file", str(place / "pom.xml")]
        _run([*command, "-Dmaven.test.skip=true", "package"], log, java)
        built = place / _BUILT
        if not built.exists():
            raise SetupError(
                f"the front end cannot be built: {_complaint(log)}",
                code="front-build",
                hint=f"Maven needs a JDK, and its repository for the first time; {_ELSEWHERE}",
            )
        built.replace(jar)


def _run(command: list[str], log: Path, java: Java) -> None:
    """Run Maven until it ends, as the user, whose repository and settings it uses."""
    environment = dict(os.environ)
    home = Path(java.program).resolve().parents[1]
    if (home / "bin" / "javac").exists():
        environment["JAVA_HOME"] = str(home)
    process = Guarded(command, log, None, end_signal=signal.SIGKILL, environment=environment)
    try:
        deadline = time.monotonic() + _BUILD_S_MAX
        while not process.wait_exit(1.0):
            if time.monotonic() > deadline:
                raise SetupError(
                    f"Maven did not build the front end within {_BUILD_S_MAX / 60:.0f} min",
                    code="front-build-time",
                    hint=_ELSEWHERE,
                )
    finally:
        process.end()


def _complaint(log: Path) -> str:
    """Return the first error that Maven logged."""
    lines = [line.strip() for line in log_text(log).splitlines() if line.strip()]
    errors = [line.removeprefix("[ERROR]").strip() for line in lines if line.startswith("[ERROR]")]
    return next(iter(errors or lines[-1:]), "Maven said nothing")
