"""Each signature has a test on a made-up run file that asserts it as found, and one as cleared.

The tests are read, not run: an ID and a status count where both belong to one ``assert``. That they
also speak on live servers depends on the machine, and is no part of these tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pgdyno.rules.rule import rules_of_loads

HERE = Path(__file__)
STATUSES = ("found", "cleared")
Meanings = dict[str, list[ast.AST]]
"""Name → what it stands for."""


def names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def bound_in(scope: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Names with what they are assigned, go through, or are parametrized with."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign):
            yield from ((name, node.value) for each in node.targets for name in names_in(each))
        elif isinstance(node, ast.AnnAssign) and node.value:
            yield from ((name, node.value) for name in names_in(node.target))
        elif isinstance(node, ast.For | ast.comprehension):
            yield from ((name, node.iter) for name in names_in(node.target))
        elif isinstance(node, ast.withitem) and node.optional_vars:
            yield from ((name, node.context_expr) for name in names_in(node.optional_vars))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.parametrize":
            arguments = ast.literal_eval(node.args[0])
            for name in arguments if isinstance(arguments, tuple) else arguments.split(","):
                yield name, node.args[1]


@cache
def module(text: str) -> tuple[list[ast.FunctionDef], Meanings]:
    """Its functions, and what its own and its imported names stand for."""
    tree, meanings = ast.parse(text), Meanings()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            path = HERE.with_name(f"{node.module}.py")
            if path.exists():
                meanings |= module(path.read_text())[1]
        elif isinstance(node, ast.FunctionDef):
            meanings[node.name] = [node]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            meanings |= {name: [value] for name, value in bound_in(node)}
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)], meanings


def texts_of(node: ast.AST, meanings: Meanings, known: frozenset[str] = frozenset()) -> set[str]:
    """Texts in a node, and in what its names stand for; of a function its own texts alone."""
    texts = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
    new = set() if isinstance(node, ast.FunctionDef) else names_in(node) - known
    for name in new:
        for meaning in meanings.get(name, []):
            texts |= texts_of(meaning, meanings, known | new)
    return texts


def asserted(text: str) -> set[tuple[str, str]]:
    """ID and status of what the tests in a module assert."""
    ids = {rule.id for rule in rules_of_loads()}
    functions, of_module = module(text)
    pairs = set()
    for function in functions:
        if not function.name.startswith("test_"):
            continue
        local = Meanings()
        for name, meaning in bound_in(function):
            local.setdefault(name, []).append(meaning)
        for node in ast.walk(function):
            if isinstance(node, ast.Assert):
                texts = texts_of(node, of_module | local)
                pairs |= {(each, s) for each in ids & texts for s in STATUSES if s in texts}
    return pairs


def test_each_signature_is_found_and_cleared_on_made_up_run_files() -> None:
    pairs = set()
    for path in HERE.parent.glob("test_*.py"):
        text = path.read_text()
        if path != HERE and "diagnose" in text:
            pairs |= asserted(text)
    wanted = [(rule.id, status) for rule in rules_of_loads() for status in STATUSES]
    assert [pair for pair in wanted if pair not in pairs] == []


BOTH = {("hot-row", "found"), ("hot-row", "cleared")}


@pytest.mark.parametrize(
    ("body", "pairs"),
    [
        ('assert diagnosed(load)["hot-row"].status == "found"', {("hot-row", "found")}),
        ('said = diagnosed(load)["hot-row"]\n    assert said.status == status', BOTH),
        ("said = diagnosed(load)[NAME]\n    assert said.status == status, said.sentence", BOTH),
        ('assert finding(load).status == "cleared"', {("hot-row", "cleared")}),
        ('assert diagnosed(load)["hot-row"].share > 0.5', set()),
        ('diagnosed(load)["hot-row"]\n    assert status', set()),
        ('assert diagnosed(load)["hot-rows"].status == status', set()),
    ],
)
def test_what_a_test_asserts(body: str, pairs: set[tuple[str, str]]) -> None:
    text = (
        'NAME = "hot-row"\n'
        'def finding(load):\n    return diagnosed(load)["hot-row"]\n'
        '@pytest.mark.parametrize("status", ["found", "cleared"])\n'
        f"def test_x(load, status):\n    {body}\n"
    )
    assert asserted(text) == pairs
