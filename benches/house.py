"""``python -m benches.house``: figures of the house, to compare before and after it is rebuilt.

Printed are the sizes of files, functions and rooms, class names that stand in several files, the
imports between rooms, the openings of docstrings, and the tests that quote English. All are counted
in the sources, which are parsed and not imported, so that any Python 3.11 will do.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from benches.sources import docstrings, imports_within, module_name, syntax_tree

SMALL_LINES_MAX = 40
LONGEST = 10
OPENINGS = ("Return", "Return what", "True if", "Whether")
"""Openings of docstrings that are counted; the second is part of the first."""
_ENGLISH = re.compile(r"[A-Za-z][A-Za-z']*(?:[ ,]+[A-Za-z][A-Za-z']*){2,}")
"""Three words or more."""

Table = dict[str, dict[str, float]]
"""Figures by row and column."""
House = dict[str, Table]
"""Tables by title; also the form of ``--format json``."""


class Sources:
    """The modules of the package and of the tests below a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.package = root / "src" / "pgdyno"
        self.modules = sorted(self.package.rglob("*.py"))
        self.tests = sorted((root / "tests").rglob("*.py"))
        self.lines = {path: path.read_text().splitlines() for path in self.modules}
        self.imports = imports_within(self.package)

    def nodes(self) -> Iterator[ast.AST]:
        """Yield the nodes of all modules of the package."""
        for path in self.modules:
            yield from ast.walk(syntax_tree(path))

    def rooms(self) -> dict[str, list[Path]]:
        """Return the modules of each room."""
        rooms: dict[str, list[Path]] = {}
        for path in self.modules:
            if room := room_of(module_name(path, self.package)):
                rooms.setdefault(room, []).append(path)
        return rooms

    def class_names(self) -> dict[str, list[str]]:
        """Return the class names that stand in several files, with these files."""
        files: dict[str, set[str]] = {}
        for path in self.modules:
            for node in ast.walk(syntax_tree(path)):
                if isinstance(node, ast.ClassDef):
                    files.setdefault(node.name, set()).add(str(path.relative_to(self.package)))
        return {name: sorted(files[name]) for name in sorted(files) if len(files[name]) > 1}

    def mentions(self, word: str) -> dict[str, int]:
        """Return how often each file mentions a word, except those with the word in their path.

        Parts of identifiers are words: ``storm_result`` mentions storm, ``brainstorm`` does not.
        """
        whole = re.compile(rf"(?<![a-z]){re.escape(word)}(?![a-z])", re.IGNORECASE)
        found = {}
        for path in sorted(self.package.rglob("*")):
            name = str(path.relative_to(self.package))
            if path.is_file() and "__pycache__" not in path.parts and not whole.search(name):
                count = len(whole.findall(path.read_bytes().decode(errors="replace")))
                if count:
                    found[name] = count
        return found


def room_of(module: str) -> str:
    """Return the package or module directly below the package that a module belongs to.

    It is empty for the package's own modules, ``__init__`` and ``__main__``.
    """
    room = [*module.split("."), ""][1]
    return "" if room == "__main__" else room


def house_of(sources: Sources) -> House:
    """Count all figures."""
    lines = {path: len(text) for path, text in sources.lines.items()}
    functions = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for node in sources.nodes()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    counts = {
        "modules": len(lines),
        f"modules of at most {SMALL_LINES_MAX} lines": sum(
            each <= SMALL_LINES_MAX for each in lines.values()
        ),
        **_kinds_of_lines(sources),
        "class names in several files": len(sources.class_names()),
        **_imports(sources),
        **_openings(sources),
        **_asserts(sources),
    }
    longest = sorted(lines, key=lambda path: (-lines[path], path))[:LONGEST]
    return {
        "figures": {name: {"number": number} for name, number in counts.items()},
        "lines": {"of a file": _spread(lines.values()), "of a function": _spread(functions)},
        "rooms": {
            room: {
                "files": len(paths),
                "lines": sum(lines[path] for path in paths),
                "public names": sum(_public_names(path) for path in paths),
            }
            for room, paths in sources.rooms().items()
        },
        f"{LONGEST} longest files": {
            str(path.relative_to(sources.package)): {"lines": lines[path]} for path in longest
        },
    }


def _kinds_of_lines(sources: Sources) -> dict[str, float]:
    """Return the number of lines, and of lines of each kind."""
    kinds = {"lines": 0, "lines of code": 0, "lines of docstrings": 0, "lines of imports": 0}
    for path, lines in sources.lines.items():
        tree = syntax_tree(path)
        imports = (n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom))
        of_docstrings = _numbers(node for node, _ in docstrings(tree))
        of_imports = _numbers(imports)
        filled = {n for n, line in enumerate(lines, 1) if line.strip() and line.strip()[0] != "#"}
        kinds["lines"] += len(lines)
        kinds["lines of code"] += len(filled - of_docstrings - of_imports)
        kinds["lines of docstrings"] += len(of_docstrings)
        kinds["lines of imports"] += len(of_imports)
    return {**kinds}


def _numbers(nodes: Iterable[ast.stmt]) -> set[int]:
    """Return the numbers of the lines that the nodes are on."""
    return {n for each in nodes for n in range(each.lineno, (each.end_lineno or each.lineno) + 1)}


def _spread(numbers: Iterable[int]) -> dict[str, float]:
    ranked = sorted(numbers) or [0]

    def quantile(share: float) -> int:
        return ranked[math.ceil(share * len(ranked)) - 1]

    return {"median": quantile(0.5), "p90": quantile(0.9), "max": ranked[-1]}


def _public_names(path: Path) -> int:
    """Return the number of functions and classes of a module that begin with no underscore."""
    named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return sum(
        isinstance(node, named) and not node.name.startswith("_") for node in syntax_tree(path).body
    )


def _imports(sources: Sources) -> dict[str, float]:
    """Return the number of modules that modules import, and how they reach other rooms' modules."""
    graph = sources.imports
    between = [
        imported
        for module, all_imported in graph.items()
        for imported in all_imported
        if room_of(imported) not in ("", room_of(module))
    ]
    # A room that is one module is its own front door.
    into_packages = [
        imported for imported in between if (sources.package / room_of(imported)).is_dir()
    ]
    past = sum(imported.count(".") > 1 for imported in into_packages)
    return {
        "imports": sum(map(len, graph.values())),
        "imports between rooms": len(between),
        "imports past a front door": past,
        "imports past a front door, % of those into packages": _percent(past, len(into_packages)),
        "rooms in the longest chain": len(longest_chain(graph)),
    }


def longest_chain(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the longest chain of rooms of which each imports the next; empty if they import each
    other in a circle."""
    graph: dict[str, set[str]] = {}
    for module, all_imported in imports.items():
        if here := room_of(module):
            rooms = {room_of(each) for each in all_imported}
            graph.setdefault(here, set()).update(rooms - {here, ""})
    chains: dict[str, list[str]] = {}
    try:
        for room in TopologicalSorter(graph).static_order():
            further = [chains[each] for each in sorted(graph.get(room, ()))]
            chains[room] = [room, *max(further, key=len, default=[])]
    except CycleError:
        return []
    return max((chains[room] for room in sorted(chains)), key=len, default=[])


def _openings(sources: Sources) -> dict[str, float]:
    texts = [text for path in sources.modules for _, text in docstrings(syntax_tree(path))]
    return {
        f'docstrings that begin "{opening}"': sum(text.startswith(f"{opening} ") for text in texts)
        for opening in OPENINGS
    }


def _asserts(sources: Sources) -> dict[str, float]:
    """Count the asserts of the tests, those that quote English, and those in tests with such."""
    total = quoting = beside = 0
    for path in sources.tests:
        tree = syntax_tree(path)
        total += sum(isinstance(node, ast.Assert) for node in ast.walk(tree))
        for test in ast.walk(tree):
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                asserts = [node for node in ast.walk(test) if isinstance(node, ast.Assert)]
                if quotes := sum(_quotes_english(each.test) for each in asserts):
                    quoting += quotes
                    beside += len(asserts)
    return {
        "asserts": total,
        "asserts that quote English, %": _percent(quoting, total),
        "asserts in tests that quote English, %": _percent(beside, total),
    }


def _quotes_english(asserted: ast.expr) -> bool:
    """Return True if a comparison in it has a literal of three English words.

    A whole text in ``snapshot(…)``, which a command rewrites, is none, nor the key of a subscript.
    """
    return any(
        _ENGLISH.search(text)
        for comparison in ast.walk(asserted)
        if isinstance(comparison, ast.Compare)
        for text in _compared_texts(comparison)
    )


def _compared_texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Subscript):
        yield from _compared_texts(node.value)
    elif not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "snapshot"):
        for child in ast.iter_child_nodes(node):
            yield from _compared_texts(child)


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0


def text_of(house: House, before: House | None = None) -> str:
    """Return the tables as text; a figure that was another ``before`` has both, as 12 → 9."""
    earlier = house if before is None else before
    return "\n\n".join(_table(title, earlier.get(title, {}), house[title]) for title in house)


def _table(title: str, before: Table, after: Table) -> str:
    rows = {**after, **before}
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells = [[title, *columns]]
    for name in rows:
        sides = before.get(name, {}), after.get(name, {})
        cells.append([name, *(_cell(*(side.get(each) for side in sides)) for each in columns)])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in cells
    )


def _cell(before: float | None, after: float | None) -> str:
    words = ["–" if each is None else f"{each:,}" for each in (before, after)]
    return words[1] if before == after else " → ".join(words)


def _mentions_text(sources: Sources, word: str) -> str:
    found = sources.mentions(word)
    lines = [f"{count:>4}  {name}" for name, count in found.items()]
    return "\n".join(
        [*lines, f"files that mention {word}, without those of that name: {len(found)}"]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Count and print; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benches.house", description=__doc__)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--against", type=Path, metavar="FILE", help="figures kept as JSON earlier")
    parser.add_argument("--names", metavar="WORD", help="list files that mention a word")
    several = "list class names that stand in several files"
    parser.add_argument("--class-names", action="store_true", help=several)
    parser.add_argument("--root", type=Path, default=Path(), help="another copy of the sources")
    given = parser.parse_args(argv)
    sources = Sources(given.root)
    if not sources.modules:
        parser.error(f"{sources.package} has no modules")
    if given.names:
        print(_mentions_text(sources, given.names))
    elif given.class_names:
        for name, files in sources.class_names().items():
            print(f"{name}: {', '.join(files)}")
    elif given.format == "json":
        print(json.dumps(house_of(sources), indent=1))
    else:
        print(text_of(house_of(sources), given.against and json.loads(given.against.read_text())))
        print(f"\nlongest chain of rooms: {' → '.join(longest_chain(sources.imports))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
