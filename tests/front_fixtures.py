"""The jar of the front end, built once for all tests of a session; front ends before a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgdyno.errors import SetupError
from pgdyno.front import FrontEnd, FrontSettings, application_jar, find_java
from pgdyno.server import ConnInfo


@pytest.fixture(scope="session")
def front_jar() -> Path:
    """The jar; workers that need it at the same time wait for the one that builds it."""
    try:
        return application_jar(find_java(), print)
    except SetupError as problem:
        if problem.code not in ("front-java", "front-java-version", "front-maven"):
            raise
        pytest.skip(problem.message)


@pytest.fixture
def new_front(front_jar: Path) -> Iterator[Callable[[ConnInfo, FrontSettings], FrontEnd]]:
    """Starts front ends for one test: ``new_front(conninfo, FrontSettings("hikari"))``."""
    made: list[FrontEnd] = []

    def make(server: ConnInfo, settings: FrontSettings) -> FrontEnd:
        made.append(FrontEnd(find_java(), front_jar, server, settings))
        return made[-1]

    yield make
    for front in made:
        front.close()
