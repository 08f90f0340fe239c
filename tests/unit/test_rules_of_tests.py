"""The rules of the tests that a machine can check: nothing waits for a time, and nothing depends on
what else runs on the machine. What cannot keep them is in ``tests/quiet``, for a quiet machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from msgspec import Struct

TESTS = Path(__file__).parents[1]
SLEEP_S_MAX = 0.2
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time_ns"}
LISTINGS = {"glob", "rglob", "iterdir", "listdir", "scandir", "process_iter", "pids"}
PORTS = {"port", "listen_port"}
WAITING = "patience.py"
"""Has the deadline of all waits, and their pauses."""
LOOKING = "remains.py"
"""Has the look at processes: at those with a path of a test's own."""
MEASURING = {"exam", "quiet", "fuzz"}
"""Folders that are no part of ``make test``."""


class Source(Struct, frozen=True):
    """A module of the tests."""

    name: str
    tree: ast.Module

    def constant(self, node: ast.expr) -> object:
        """What a literal, or the name of a constant of the module, stands for; None if unknown."""
        if isinstance(node, ast.Name):
            for each in self.tree.body:
                if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == node.id:
                    return self.constant(each.value)
        return node.value if isinstance(node, ast.Constant) else None

    @property
    def elapsed(self) -> set[str]:
        """Names of times that have passed: differences with a clock in them."""
        return {
            ast.unparse(node.targets[0])
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.BinOp)
            and isinstance(node.value.op, ast.Sub)
            and _reads_clock(node.value)
        }

    def broken(self) -> Iterator[str]:
        """Each place that breaks a rule, and how."""
        elapsed = self.elapsed
        for node in ast.walk(self.tree):
            for what in self._broken_by(node, elapsed):
                yield f"{self.name}:{getattr(node, 'lineno', 0)} {what}"

    def _broken_by(self, node: ast.AST, elapsed: Collection[str]) -> Iterator[str]:
        if isinstance(node, ast.Call):
            yield from self._broken_by_call(node)
        elif isinstance(node, ast.Assert):
            if _limits_a_time(node.test, elapsed):
                yield "asserts how long something took at most"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for asked in re.findall(r"\btime\.sleep\(([0-9.]+)\)", node.value):
                if float(asked) > SLEEP_S_MAX:
                    yield f"has a program that sleeps for {asked} s instead of waiting for a signal"

    def _broken_by_call(self, call: ast.Call) -> Iterator[str]:
        called, text = ast.unparse(call.func), ast.unparse(call)
        name = called.rpartition(".")[2]
        if called in ("sleep", "time.sleep") and not self.name.endswith(WAITING):
            asked = self.constant(call.args[0])
            if not isinstance(asked, int | float) or asked > SLEEP_S_MAX:
                yield f"sleeps for more than {SLEEP_S_MAX} s, or for an unknown time"
        if name in LISTINGS and not self.name.endswith(LOOKING) and _lists_processes(text, name):
            yield "looks at processes that it did not start"
        ports = [each.value for each in call.keywords if each.arg in PORTS]
        if name in ("bind", "listen") and call.args and isinstance(call.args[0], ast.Tuple):
            ports.append(call.args[0].elts[-1])
        for port in map(self.constant, ports):
            if isinstance(port, int) and port > 0:
                yield f"has the fixed port {port}"


def _limits_a_time(test: ast.expr, elapsed: Collection[str]) -> bool:
    """Whether a slow machine could make it false: "at least" is no such limit."""
    if not _reads_clock(test, elapsed):
        return False
    if not isinstance(test, ast.Compare) or len(test.ops) > 1:
        return True
    (operator,), right = test.ops, test.comparators[0]
    grows = {ast.Gt: test.left, ast.GtE: test.left, ast.Lt: right, ast.LtE: right}
    larger = grows.get(type(operator))
    return larger is None or not _reads_clock(larger, elapsed)


def _lists_processes(text: str, name: str) -> bool:
    return name in ("process_iter", "pids") or ("/proc'" in text and "/proc/self" not in text)


def _reads_clock(node: ast.AST, elapsed: Collection[str] = ()) -> bool:
    return any(
        (isinstance(each, ast.Attribute) and each.attr in CLOCKS)
        or (isinstance(each, ast.Name) and each.id in elapsed)
        for each in ast.walk(node)
    )


def test_tests_depend_on_no_time_and_no_neighbour() -> None:
    paths = [path.relative_to(TESTS) for path in sorted(TESTS.rglob("*.py"))]
    sources = [
        Source(str(path), ast.parse((TESTS / path).read_text()))
        for path in paths
        if path.parts[0] not in MEASURING and path.name != Path(__file__).name
    ]
    assert len(sources) > 100
    assert [place for source in sources for place in source.broken()] == []


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("time.sleep(0.3)", "sleeps for more than 0.2 s"),
        ("PAUSE_S = 2\ntime.sleep(PAUSE_S)", "sleeps for more than 0.2 s"),
        ("time.sleep(pause_s)", "or for an unknown time"),
        ("run('import time; time.sleep(60)')", "a program that sleeps for 60 s"),
        ("assert time.monotonic() < deadline_s", "asserts how long"),
        ("took_s = time.monotonic() - began_s\nassert took_s < 5", "asserts how long"),
        ("connect(port=5432)", "the fixed port 5432"),
        ("listener.bind(('127.0.0.1', 8080))", "the fixed port 8080"),
        ("for entry in Path('/proc').glob('[0-9]*'): pass", "processes that it did not start"),
        ("os.listdir('/proc')", "processes that it did not start"),
        ("psutil.process_iter()", "processes that it did not start"),
    ],
)
def test_each_rule_is_held(program: str, says: str) -> None:
    (place,) = Source("test_x.py", ast.parse(program)).broken()
    assert says in place


@pytest.mark.parametrize(
    "program",
    [
        "time.sleep(0.05)",
        "PAUSE_S = 0.1\ntime.sleep(PAUSE_S)",
        "connect(port=0)",
        "listener.bind(('127.0.0.1', 0))",
        "Path('/proc/self/mountinfo').read_text()",
        "Path('/proc/self/fd').iterdir()",
        "ends_s = time.monotonic() + 5\nassert said == 'ready'",
        "took_s = time.monotonic() - began_s\nassert took_s >= 0.2",
    ],
)
def test_what_keeps_them_is_let_alone(program: str) -> None:
    assert list(Source("test_x.py", ast.parse(program)).broken()) == []
