"""An application that none of us wrote: Synapse, a server for chats, on a PostgreSQL of its own.

It is installed from the registry of packages into a directory of its own when the exam begins.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from exam.captures.chat import Chat
from exam.captures.sides import check
from pgdyno.server import Cluster, ConnInfo, connect_plain, find_installation

PACKAGES = ("matrix-synapse==1.163.2", "psycopg2-binary==2.9.13")
INSTALLED = "PGDYNO_EXAM_SYNAPSE"
"""Variable with a directory in which it is installed once and kept."""
_INSTALL_S_MAX = 300
_START_S_MAX = 90
_END_S_MAX = 20
_NO_LIMIT = {"per_second": 100_000, "burst_count": 100_000}
_LIMITS = {
    "rc_message": _NO_LIMIT,
    "rc_registration": _NO_LIMIT,
    "rc_login": {"address": _NO_LIMIT, "account": _NO_LIMIT, "failed_attempts": _NO_LIMIT},
    "rc_joins": {"local": _NO_LIMIT, "remote": _NO_LIMIT},
    "rc_joins_per_room": _NO_LIMIT,
    "rc_invites": {"per_room": _NO_LIMIT, "per_user": _NO_LIMIT, "per_issuer": _NO_LIMIT},
    "rc_room_creation": _NO_LIMIT,
    "rc_presence": {"per_user": _NO_LIMIT},
}


class NotInstalled(Exception):
    """The application cannot be installed or started here; the text says why."""


class ApplicationSide:
    """A server whose load an application makes."""

    keeps_sessions = True

    def __init__(self, conninfo: ConnInfo, postmaster: int, chat: Chat) -> None:
        self.conninfo = conninfo
        self.postmaster = postmaster
        self._chat = chat

    def loaded(self) -> AbstractContextManager[None]:
        """Let people chat within the block."""
        return self._chat.going()

    def findings(self, seconds: float) -> list[str]:
        """Return what ``pgdyno check`` finds."""
        return check(self, seconds)


@contextmanager
def application_side(folder: Path) -> Iterator[ApplicationSide]:
    """Install and start the application and its server. Raises NotInstalled."""
    python = _installed(Path(os.environ.get(INSTALLED) or folder / "synapse-packages"))
    settings = {
        "shared_preload_libraries": "pg_stat_statements",
        "checkpoint_timeout": "1h",
        "max_wal_size": "16GB",
    }
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster.create(find_installation(), settings))
        port, secret = _free_port(), secrets.token_hex(16)
        config = _configuration(cluster.conninfo, folder, port, secret)
        stack.enter_context(_running(python, config, port, folder))
        chat = stack.enter_context(Chat.opened(port, secret))
        with connect_plain(cluster.conninfo) as connection:
            connection.execute("create extension if not exists pg_stat_statements")
        assert cluster.pid is not None
        yield ApplicationSide(cluster.conninfo, cluster.pid, chat)


def _installed(directory: Path) -> Path:
    """Install the packages unless they are there; return the interpreter that has them."""
    python = directory / "bin" / "python"
    if (directory / "complete").exists():
        return python
    for command in (
        [sys.executable, "-m", "venv", str(directory)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S_MAX)
        if done.returncode:
            raise NotInstalled(f"{PACKAGES[0]}: {' '.join(done.stderr.split()[-30:])}")
    (directory / "complete").touch()
    return python


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def _configuration(database: ConnInfo, folder: Path, port: int, secret: str) -> Path:
    """Write the configuration (JSON is YAML too), with the server's logs and keys beside it."""
    log = {
        "version": 1,
        "handlers": {"file": {"class": "logging.FileHandler", "filename": f"{folder}/synapse.log"}},
        "root": {"level": "WARNING", "handlers": ["file"]},
    }
    (folder / "log.yaml").write_text(json.dumps(log))
    values: dict[str, Any] = {
        "server_name": "exam",
        "report_stats": False,
        "pid_file": f"{folder}/synapse.pid",
        "listeners": [
            {
                "port": port,
                "type": "http",
                "bind_addresses": ["127.0.0.1"],
                "resources": [{"names": ["client"], "compress": False}],
            }
        ],
        "database": {
            "name": "psycopg2",
            "args": {
                "user": database.user,
                "password": database.password,
                "dbname": database.database,
                "host": database.host,
                "port": database.port,
                "cp_min": 5,
                "cp_max": 10,
            },
        },
        "log_config": f"{folder}/log.yaml",
        "media_store_path": f"{folder}/media",
        "signing_key_path": f"{folder}/signing.key",
        "registration_shared_secret": secret,
        "macaroon_secret_key": secrets.token_hex(16),
        "form_secret": secrets.token_hex(16),
        "trusted_key_servers": [],
        "bcrypt_rounds": 4,
        **_LIMITS,
    }
    path = folder / "homeserver.yaml"
    path.write_text(json.dumps(values))
    return path


@contextmanager
def _running(python: Path, config: Path, port: int, folder: Path) -> Iterator[None]:
    """Run the application within the block. Raises NotInstalled if it does not start."""
    command = [str(python), "-m", "synapse.app.homeserver", "--config-path", str(config)]
    said = folder / "synapse.out"
    with said.open("w") as out:
        subprocess.run([*command, "--generate-keys"], stdout=out, stderr=out, timeout=_START_S_MAX)
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
    try:
        _wait_started(process, port, said)
        yield
    finally:
        process.terminate()
        try:
            process.wait(_END_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_started(process: subprocess.Popen[bytes], port: int, said: Path) -> None:
    ends_s = time.monotonic() + _START_S_MAX
    while time.monotonic() < ends_s and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise NotInstalled(f"it does not start: {' '.join(said.read_text().split()[-40:])}")
