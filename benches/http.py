"""CPU per request by HTTP: pgdyno, wrk and ab on one responder, one after the other in rounds.

HAProxy answers from memory with keep-alive. Of wrk and ab the whole process is measured, of pgdyno
its process while the load runs, with all counts on. Ratios are of medians over the rounds.

    python -m benches.http --clients 8 64 --seconds 3 --rounds 5
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benches.processes import run_to_end
from benches.sample import BenchError
from pgdyno._engine import Load

_REQUESTS = re.compile(r"(\d+) requests in|Complete requests: +(\d+)")
_WARM_UP_S = 0.5
_CONFIG = """
defaults
    mode http
    timeout client 1m
    timeout server 1m
    timeout http-keep-alive 1m
listen responder
    bind 127.0.0.1:{port}
    http-request return status 200 content-type text/plain string "hello, world"
"""


@contextmanager
def responder() -> Iterator[int]:
    """Run HAProxy; yield its port."""
    program = shutil.which("haproxy", path="/usr/sbin:/usr/bin")
    if program is None:
        raise BenchError("haproxy is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "haproxy.cfg"
        config.write_text(_CONFIG.format(port=port))
        process = subprocess.Popen([program, "-db", "-q", "-f", str(config)])
        try:
            _wait_for(port)
            yield port
        finally:
            process.kill()
            process.wait()


def _wait_for(port: int) -> None:
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise BenchError("haproxy did not start")


def measure_pgdyno(port: int, clients: int, seconds: float) -> float:
    """Return the CPU time of a request in microseconds."""
    argv = [sys.executable, "-m", "benches.http", "--child", str(port)]
    argv += ["--clients", str(clients), "--seconds", str(seconds)]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return float(said)


def _child(port: int, clients: int, seconds: float) -> float:
    group = {
        "name": "g",
        "clients": clients,
        "http": {"host": "127.0.0.1", "port": port},
        "scripts": [{"name": "s", "text": "\\get /\n"}],
    }
    load = Load(json.dumps({"groups": [group]}))
    load.start()
    time.sleep(_WARM_UP_S)
    load.end_interval(1)
    before = resource.getrusage(resource.RUSAGE_SELF)
    time.sleep(seconds)
    after = resource.getrusage(resource.RUSAGE_SELF)
    load.end_interval(2)
    load.stop(1000)
    done = sum(s["done"] for i in load.poll() if i["tag"] == 1 for s in i["scripts"])
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1e6 * cpu_s / done


def measure_wrk(port: int, clients: int, seconds: float) -> float:
    """Return the same of wrk."""
    duration = f"-d{max(1, round(seconds))}s"
    return _of_process(["wrk", "-t1", f"-c{clients}", duration, f"http://127.0.0.1:{port}/"])


def measure_ab(port: int, clients: int, seconds: float) -> float:
    """Return the same of ab."""
    many = ["-n", "100000000", "-t", str(max(1, round(seconds)))]
    return _of_process(["ab", "-k", "-q", *many, "-c", str(clients), f"http://127.0.0.1:{port}/"])


def _of_process(argv: list[str]) -> float:
    ended = run_to_end(argv, timeout_s=120)
    found = _REQUESTS.search(ended.stdout)
    if found is None:
        raise BenchError(f"the output of {argv[0]} lacks its requests: {ended.stdout[-300:]}")
    return 1e6 * (ended.cpu_user_s + ended.cpu_system_s) / int(found[1] or found[2])


CONTENDERS: dict[str, Callable[[int, int, float], float]] = {
    "pgdyno": measure_pgdyno,
    "wrk": measure_wrk,
    "ab": measure_ab,
}


def main() -> None:
    """Measure and print a row for each number of clients."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        sys.stdout.write(f"{_child(given.child, given.clients[0], given.seconds)}\n")
        return
    there = [name for name in CONTENDERS if name == "pgdyno" or shutil.which(name)]
    with responder() as port:
        for clients in given.clients:
            found: dict[str, list[float]] = {name: [] for name in there}
            for number in range(given.rounds):
                for name in there if number % 2 else reversed(there):
                    found[name].append(CONTENDERS[name](port, clients, given.seconds))
            middle = {name: median(each) for name, each in found.items()}
            words = [f"{name} {us:.2f} us" for name, us in middle.items()]
            ratios = [f"{middle['pgdyno'] / middle[name]:.2f} x {name}" for name in there[1:]]
            sys.stdout.write(f"{clients} clients: {', '.join(words)}; {', '.join(ratios)}\n")


if __name__ == "__main__":
    main()
