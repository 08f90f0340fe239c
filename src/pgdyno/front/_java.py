"""Finding Java and Maven."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from msgspec import Struct

from pgdyno.errors import SetupError
from pgdyno.server.local.account import run_as
from pgdyno.server.local.programs import find_program

VERSION_MIN = 17
_PACKAGES = (
    "apt-get install openjdk-17-jdk-headless maven, or dnf install java-17-openjdk-devel maven"
)
_ANSWER_S_MAX = 60.0
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


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
