"""pg_dump from the user's server and pg_restore into pgdyno's, by processes that end with pgdyno.

The dump lies in the directory of the server that takes it, and goes with it. No password is on a
command line: the values of the connection are in the environment of pg_dump, those that libpq has
no variable for in a service file (0600) beside the dump.
"""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from pgdyno.errors import SetupError
from pgdyno.server import Cluster, ConnInfo, Installation, discover_installations
from pgdyno.server.local.account import plain_environment
from pgdyno.server.local.guarded import Guarded
from pgdyno.server.local.safefiles import remove_own_directory, write_own
from pgdyno.visible import visible_line

_PROGRAMS = ("pg_dump", "pg_restore")
_LEFT_OUT = (
    "--no-owner",
    "--no-privileges",
    "--no-publications",
    "--no-subscriptions",
    "--no-security-labels",
    "--no-tablespaces",
)
"""Options of both programs: an archive has owners and tablespaces even so."""
_LOCK_WAIT = "--lock-wait-timeout=30s"
_ABOUT_LOCKS = "; a statement timeout of pg_dump is that a table was locked for more than 30 s"
_JOBS_MAX = 4
_LOG_BYTES_MAX = 1 << 20
_POLL_S = 1.0
_VARIABLES = {"host": "PGHOST", "hostaddr": "PGHOSTADDR", "port": "PGPORT", "user": "PGUSER"}
_VARIABLES |= {"dbname": "PGDATABASE", "password": "PGPASSWORD"}
_FILES = ("sslcert", "sslkey", "sslrootcert", "sslcrl")
_NOT_RESTORED = re.compile(rb"\d+; \d+ \d+ (?:USER MAPPING|POLICY|ROW SECURITY) ")
"""Entries of a dump that name roles; a user mapping would lead to the servers of others."""


def programs_of(installation: Installation) -> Installation:
    """Return the binaries with pg_dump and pg_restore for a server: its own, else others of its
    version. Raises SetupError."""
    others = [each for each in discover_installations() if each.major == installation.major]
    for each in (installation, *others):
        if all(each.binary(name).is_file() for name in _PROGRAMS):
            return each
    installation.program(_PROGRAMS[0])
    installation.program(_PROGRAMS[1])
    raise AssertionError("one of them is missing")


class Transfer:
    """A dump on its way from one server to the other."""

    def __init__(self, source: ConnInfo, cluster: Cluster) -> None:
        self._source = source
        self._cluster = cluster
        self._programs = programs_of(cluster.installation)
        self._dump = cluster.directory / "dump"
        self._jobs = f"--jobs={min(_JOBS_MAX, os.cpu_count() or 1)}"

    def dump(self) -> None:
        """Dump the database. Raises SetupError."""
        service = self._cluster.directory / "source.conf"
        write_own(service, _service(self._source))
        environment = _environment(self._source) | {
            "PGSERVICEFILE": str(service),
            "PGSERVICE": "source",
        }
        if "HOME" in os.environ:  # Certificates may be there.
            environment["HOME"] = os.environ["HOME"]
        options = ("--format=directory", self._jobs, _LOCK_WAIT, *_LEFT_OUT)
        try:
            self._run("pg_dump", [*options, f"--file={self._dump}"], environment)
        finally:
            service.unlink(missing_ok=True)

    def restore(self) -> int:
        """Restore the dump and remove it; return how many of its entries were left out because they
        name roles. Raises SetupError."""
        own = self._cluster.conninfo
        contents = self._cluster.directory / "contents"
        self._run("pg_restore", ["--list", f"--file={contents}", str(self._dump)], {})
        entries = contents.read_bytes().split(b"\n")
        kept = [entry for entry in entries if not _NOT_RESTORED.match(entry)]
        contents.write_bytes(b"\n".join(kept))
        into = ["--exit-on-error", self._jobs, f"--use-list={contents}", f"--dbname={own.database}"]
        self._run("pg_restore", [*into, *_LEFT_OUT, str(self._dump)], _environment(own))
        remove_own_directory(self._dump)
        contents.unlink()
        return len(entries) - len(kept)

    def _run(self, name: str, arguments: list[str], environment: dict[str, str]) -> None:
        """Run a program until it ends. Raises SetupError with the error that it prints first."""
        log = self._cluster.directory / f"{name}.log"
        process = Guarded(
            [str(self._programs.binary(name)), *arguments],
            log,
            None,
            end_signal=signal.SIGTERM,
            environment=plain_environment() | environment,
        )
        try:
            while not process.wait_exit(_POLL_S):
                pass
        finally:
            process.end()
        if process.exit_status != 0:
            raise SetupError(
                f"the database {visible_line(self._source.database)} cannot be copied:"
                f" {name} {self._programs.version}: {_first_error(log) or process.how_it_ended}",
                code="copy-failed",
                hint="nothing was saved, and nothing changed on its server"
                + (_ABOUT_LOCKS if name == "pg_dump" else ""),
            )


def _environment(conninfo: ConnInfo) -> dict[str, str]:
    """Return the values of a connection for which libpq has variables that all versions know."""
    values = conninfo.kwargs()
    return {
        variable: str(values[name]) for name, variable in _VARIABLES.items() if values.get(name)
    }


def _service(conninfo: ConnInfo) -> str:
    """Return a service file with the other values. Raises SetupError for what it cannot have."""
    values = {
        name: str(value)
        for name, value in conninfo.kwargs().items()
        if name not in (*_VARIABLES, "client_encoding")
    }
    values["application_name"] = "pgdyno dump"
    for name, value in values.items():
        if name in _FILES and value and value != "system":
            values[name] = str(Path(value).expanduser().absolute())
        if "\n" in value or value != value.rstrip():
            raise SetupError(
                f"{name} in the connection string has a line break or ends with a space, and cannot"
                " be passed to pg_dump",
                code="connection-unsupported",
                hint="leave it out",
            )
    return "".join(f"{line}\n" for line in ("[source]", *(f"{k}={v}" for k, v in values.items())))


def _first_error(log: Path) -> str:
    """Return the first error in the output of a program, else its first line."""
    with log.open("rb") as file:
        lines = file.read(_LOG_BYTES_MAX).decode("utf-8", "replace").splitlines()
    named = (re.sub(r"^pg_\w+: error: ", "", line) for line in lines if ": error: " in line)
    first = next(named, lines[0] if lines else "")
    return visible_line(first.strip())
