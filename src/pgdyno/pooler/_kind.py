"""The interface of a pooler's kind: its program, its configuration, its limits."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

from pgdyno.errors import SetupError
from pgdyno.json_types import Row
from pgdyno.registry import by_name, held_by
from pgdyno.server import ConnInfo
from pgdyno.server.local.safefiles import write_text
from pgdyno.spec import Spec

Version = tuple[int, ...]
Complaint = tuple[str | None, str]
"""A complaint about a setting, if its name is known."""


class Ineffective(Struct, frozen=True):
    """A setting that has no effect as combined with others, in this version, or with this load."""

    setting: str
    why: str
    """A sentence that begins with the setting and its value."""
    instead: str
    """Way to have the effect."""
    limit_ms: float | None = None
    """The time after which it was to end unused connections, if that is its effect."""


class PoolerPlace(Struct, frozen=True):
    """The directory in which a pooler works, and its task."""

    directory: Path
    """Its own directory, of the account that runs it: configuration, passwords, sockets."""
    upstream: ConnInfo
    """The server or pooler that it connects to."""
    settings: Mapping[str, str]
    """Settings that the user gave."""
    clients: int
    """Number of clients that may connect at once."""
    version: Version

    def write(self, name: str, lines: Iterable[str]) -> Path:
        """Write one of its files, mode 0600; return its path."""
        path = self.directory / name
        write_text(path, "\n".join(lines) + "\n")
        return path


class Kind:
    """A pooler. One object for each file in ``kinds/``."""

    name: str
    """Its name in a spec."""
    title: str
    """Its own name."""
    program: str
    packages: tuple[str, str]
    """Packages of Debian and of RPM-based distributions that contain it."""
    names: re.Pattern[str] = re.compile(r"\w+")
    """The form of its settings' names."""
    owned: frozenset[str] = frozenset()
    """Settings that pgdyno sets itself, for safety or because it needs to know them."""
    port: int
    """Its port, which names its socket."""
    version_option: str = "--version"
    guard_signal: signal.Signals = signal.SIGQUIT
    """Ends it at once, when pgdyno has been killed."""
    reload_signal: signal.Signals | None = None
    """Makes it read its configuration again, and connect to another server; ``None``: it cannot."""

    def stop_signal(self, version: Version) -> signal.Signals:
        """Return the signal that ends it at once."""
        return signal.SIGTERM

    def configure(self, place: PoolerPlace) -> list[str]:
        """Write its configuration; return the arguments that start it in the foreground."""
        raise NotImplementedError

    def entrance(self, place: PoolerPlace) -> tuple[str, int]:
        """Return host and port for the clients, by default its Unix socket."""
        return str(place.directory), self.port

    def follows(self, before: Spec, after: Spec) -> bool:
        """True if its running process can go from one spec to the other under load."""
        return False

    def follow(self, entrance: ConnInfo, before: Spec, after: Spec) -> None:
        """Let its running process go from one spec to the other. Raises SetupError."""
        raise NotImplementedError

    def check(self, spec: Spec, version: Version) -> None:
        """Raise SetupError for a spec that cannot work through this version."""

    def server_connections(self, spec: Spec) -> int:
        """Return how many connections to the server it may make for one user and database."""
        raise NotImplementedError

    def refused(self, log: str, place: PoolerPlace) -> Complaint | None:
        """Return the complaint in the log; ``None`` without one."""
        raise NotImplementedError

    def ignored(self, place: PoolerPlace, entrance: ConnInfo) -> Complaint | None:
        """Return a setting that it has accepted without a word and does not follow; it runs.
        psycopg.Error, in a time that has an end, means that it does not answer yet."""
        return None

    def queues(self, place: PoolerPlace, entrance: ConnInfo) -> list[Row]:
        """Return its queues now: a row of metric_pooler for each of its pools, without what is in
        its listen queue. Any error means that it cannot be told now."""
        raise NotImplementedError

    def clean_up(self, pid: int) -> None:
        """Remove what a process that has ended may have left outside its directory."""

    def without_effect(
        self, settings: Mapping[str, str], version: Version, *, stay: bool
    ) -> Iterator[Ineffective]:
        """Yield settings without effect; ``stay``: all clients of the load remain connected."""
        yield from ()

    def warnings(self, spec: Spec, version: Version) -> Iterator[str]:
        """Yield warnings that follow from the sizes."""
        yield from ()


@cache
def kinds() -> Mapping[str, Kind]:
    """Return every pooler by its name."""
    from pgdyno.pooler import kinds as package

    return by_name(held_by(package, Kind), "poolers", lambda each: each.name)


def check_names(kind: Kind, settings: Iterable[str]) -> None:
    """Raise SetupError for settings that pgdyno sets itself, and for impossible names."""
    for name in settings:
        if not kind.names.fullmatch(name):
            raise SetupError(
                f'pooler.settings: "{name}" is not the name of a setting of {kind.title}',
                code="pooler-setting-name",
            )
        if name in kind.owned:
            raise SetupError(
                f"pooler.settings.{name}: pgdyno itself sets this of {kind.title}",
                code="pooler-setting-owned",
                hint="start such a pooler yourself and name it with -h and -p",
            )


def version_in(text: str) -> Version:
    """Return the first version number in a program's answer; empty if there is none."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def clients_of(spec: Spec) -> int:
    """Return how many connections the clients may have at once, pools included."""
    return sum(group.connections_max for group in spec.clients)


def senders_of(spec: Spec) -> int:
    """Return how many of these connections may execute something; those of idle clients do not."""
    return sum(group.connections_max for group in spec.clients if not group.idle)


def number_in(settings: Mapping[str, str], name: str, default: int) -> int:
    """Return a setting that is a number; ``default`` for one that is missing or no number."""
    text = settings.get(name, str(default))
    return int(text) if text.isascii() and text.isdecimal() else default
