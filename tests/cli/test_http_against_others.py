"""A web server loaded by pgdyno and by another generator: its log has the same requests; and one that
is stopped for two seconds, which an open loop must show."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from patience import wait_until
from web_servers import Shop, shop

if TYPE_CHECKING:
    from printed import Said

pytestmark = pytest.mark.server

REQUESTS, CLIENTS = 60, 3


@pytest.fixture(scope="module")
def web() -> Iterator[Shop]:
    with shop() as running:
        yield running


@pytest.fixture
def ab() -> str:
    """The program of Apache's benchmark."""
    program = shutil.which("ab")
    if program is None:
        pytest.skip("ab (apache2-utils) is not installed")
    return program


@pytest.mark.parametrize("body", [None, "item=5&count=2"], ids=["get", "post"])
def test_the_log_has_the_same_as_of_ab(
    body: str | None, ab: str, web: Shop, pgdyno: Callable[..., Said], tmp_path: Path
) -> None:
    script, options = "\\get /shop?a=1\n", []
    if body is not None:
        (tmp_path / "body").write_text(body)
        options = ["-p", "body", "-T", "application/x-www-form-urlencoded"]
        script = f"\\post /shop?a=1\n\\body {body}\n"
    (tmp_path / "same.http").write_text(script)
    web.requests.clear()
    command = [ab, "-q", "-n", str(REQUESTS), "-c", str(CLIENTS), *options]
    subprocess.run(
        [*command, f"{web.url}/shop?a=1"], check=True, cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    by_ab = dict(web.requests)
    web.requests.clear()
    each = str(REQUESTS // CLIENTS)
    said = pgdyno(
        *("run", "--url", web.url, "-f", "same.http", "-c", str(CLIENTS), "-t", each),
        *("-o", "same.db", "--format=json"),
    )
    assert said.status == 0, said.err
    assert by_ab == dict(web.requests)
    assert sum(by_ab.values()) == REQUESTS == json.loads(said.out)["ledger"]["done"]


@contextmanager
def server_process(log: Path) -> Iterator[tuple[int, int]]:
    """Run Python's own web server as a process; yield its id and its port."""
    text = (
        "import http.server, sys\n"
        "class Pages(http.server.SimpleHTTPRequestHandler):\n"
        "    protocol_version = 'HTTP/1.1'\n"
        "    def do_GET(self):\n"
        "        self.send_response(200)\n"
        "        self.send_header('Content-Length', '0')\n"
        "        self.end_headers()\n"
        "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Pages)\n"
        "print(server.server_address[1], flush=True)\n"
        "server.serve_forever()\n"
    )
    with log.open("wb") as notes:
        process = subprocess.Popen(
            [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=notes
        )
        try:
            assert process.stdout is not None
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


RATE, STOP_S = 200, 2


def stop_under_load(process: int, log: Path, run_file: Path) -> None:
    """Stop the server for so long that those due in ``STOP_S`` wait."""
    wait_until(lambda: log.read_bytes().count(b"GET /") >= 20, "requests in the server's log")
    os.kill(process, signal.SIGSTOP)
    try:
        wait_until(lambda: waiting(run_file) >= RATE * STOP_S, "so many are due")
    finally:
        os.kill(process, signal.SIGCONT)


def waiting(run_file: Path) -> int:
    with closing(sqlite3.connect(f"file:{run_file}?mode=ro", uri=True)) as db:
        last = "select backlog from interval order by at_ms desc limit 1"
        return int((db.execute(last).fetchone() or (0,))[0])


def test_a_server_that_stops_is_in_the_percentiles(
    pgdyno: Callable[..., Said], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with server_process(log) as (process, port):
        stopping = threading.Thread(
            target=stop_under_load, args=(process, log, tmp_path / "stopped.db")
        )
        stopping.start()
        said = pgdyno(
            *("run", "--url", f"http://127.0.0.1:{port}/", "-R", str(RATE), "-c4", "-t300"),
            *("-o", "stopped.db", "--format=json"),
        )
        stopping.join()
    assert said.status in (0, 4), said.err  # 4: other programs, or the machine, were busy.
    result = json.loads(said.out)
    # Those due in the first half second are 100 of 1,200.
    assert result["latency_ms"]["response"]["p99"] >= 1000 * (STOP_S - 0.5)
    assert (result["ledger"]["done"], result["ledger"]["failed"]) == (1200, 0)
