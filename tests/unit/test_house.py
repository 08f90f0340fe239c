"""The rules of the house that a machine can check: direction of imports, docstrings, lengths."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
from rust_modules import function_lengths, uses_of_modules

from benches.sources import imported_modules, imports_within, module_name, syntax_tree

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "pgdyno"

# Rooms in the direction that data flows; a room may import itself and those before it.
ROOMS = [
    "json_types",
    "errors",
    "credentials",
    "redact",
    "escaping",
    "files",
    "registry",
    "wait_events",
    "numbers",
    "httpserver",
    "watchdogs",
    "_engine",
    "spec",
    "record",
    "results",
    "server",
    "pooler",
    "front",
    "disk",
    "kernel",
    "workload",
    "clone",
    "imports",
    "probe",
    "plans",
    "dimension",
    "conduct",
    "stats",
    "looks",
    "facts",
    "rules",
    "diagnose",
    "remedy",
    "trial",
    "search",
    "compare",
    "investigate",
    "check",
    "capture",
    "vacuumplan",
    "drill",
    "govern",
    "price",
    "scenario",
    "report",
    "live",
    "cli",
]
# stats and remedy are pure: whoever comes after spec may ask them.
PURE = {"stats", "remedy"}
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500

# Rooms within rooms, in the same direction.
SUB_ROOMS = {
    "server": ["connecting", "settings", "local", "replication"],
    "report": ["words", "charts", "views", "terminal", "page"],
}
# Their files are found by listing the directory, so nothing imports them by name.
LISTED = {
    *("rules", "remedy", "drill/checks", "drill/faults", "dimension/kinds"),
    *("looks/kinds", "pooler/kinds", "report/views"),
}
# Started as processes of their own.
PROCESSES = {
    "disk/daemon",
    "disk/cleanup_process",
    "kernel/guardian",
    "server/local/guardian",
    "server/settings/undo_guardian",
}

MODULES = sorted(PACKAGE.rglob("*.py"))
RUST = sorted((ROOT / "crates").glob("*/src/**/*.rs"))
CRATES = sorted(path.parent for path in (ROOT / "crates").glob("*/Cargo.toml"))


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported_rooms(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pgdyno"):
            parts = node.module.split(".")
            names = [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
            yield from ((node.lineno, name) for name in names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "pgdyno" and len(parts) > 1:
                    yield node.lineno, parts[1]


def faults_of(path: Path) -> Iterator[str]:
    text, tree = path.read_text(), syntax_tree(path)
    if not ast.get_docstring(tree):
        yield "says nothing about what it is for"
    if text.count("\n") > FILE_LINES_MAX + 50:
        yield "too long a file"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.name} has {lines} lines"
    here = room_of(path)
    if here in ROOMS:
        for line, room in imported_rooms(tree):
            if room != here and room not in PURE and ROOMS.index(room) >= ROOMS.index(here):
                yield f"line {line}: {here} imports {room}, which lies to its right"


def test_modules_keep_the_rules() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {fault}" for path in MODULES for fault in faults_of(path)
    ]
    assert found == []


def test_a_module_that_breaks_a_rule_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    (tmp_path / "spec").mkdir()
    wrong = tmp_path / "spec" / "wrong.py"
    wrong.write_text("from pgdyno.cli import x\n\n\ndef f():\n" + "    1\n" * 600)
    assert list(faults_of(wrong)) == [
        "says nothing about what it is for",
        "too long a file",
        "f has 601 lines",
        "line 1: spec imports cli, which lies to its right",
    ]


UNTYPED = re.compile(r"(?:dict|Mapping)\[str, Any\]")
UNTYPED_MAX = 40


def test_what_is_untyped_stands_at_the_borders() -> None:
    found = [f"{path}" for path in MODULES for _ in UNTYPED.findall(path.read_text())]
    assert len(found) <= UNTYPED_MAX, "json_types.py has names for what is read"


@pytest.mark.parametrize("path", RUST, ids=lambda path: str(path.relative_to(ROOT / "crates")))
def test_rust_files_keep_the_rules(path: Path) -> None:
    text = path.read_text()
    assert text.lstrip().startswith(("//!", "#![no_main]")), "says nothing about what it is for"
    assert text.count("\n") <= FILE_LINES_MAX + 100, "too long a file"
    for name, lines in function_lengths(text):
        assert lines <= FUNCTION_LINES_MAX, f"{name} has {lines} lines"


@pytest.mark.parametrize("crate", CRATES, ids=lambda path: path.name)
def test_no_rust_modules_use_each_other_in_a_circle(crate: Path) -> None:
    assert_no_circle(uses_of_modules(crate / "src"))


def test_rust_that_breaks_a_rule_is_seen(tmp_path: Path) -> None:
    texts = {
        "lib.rs": "mod a;\nmod b;\npub use a::Shown;\n",
        "a.rs": "use crate::b::c::D;\nfn f() {\n    1;\n}\n",
        "b.rs": "mod c;\n",
        "b/c.rs": "// crate::a\nuse crate::{Shown, Other};\n",
    }
    (tmp_path / "b").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert uses_of_modules(tmp_path) == {("a",): {("b",)}, ("b",): {("a",)}}
    with pytest.raises(pytest.fail.Exception, match="circle"):
        assert_no_circle(uses_of_modules(tmp_path))
    assert list(function_lengths(texts["a.rs"])) == [("f", 3)]


def importers() -> dict[str, set[str]]:
    """By module, the modules that import it."""
    imports = imports_within(PACKAGE)
    return {name: {each for each in imports if name in imports[each]} for name in imports}


def home_of(module: str) -> str:
    """The room, or the room within a room, that a module belongs to."""
    parts = module.split(".")[1:]
    within = len(parts) > 2 and parts[1] in SUB_ROOMS.get(parts[0], ())
    return ".".join(parts[:2] if within else parts[:1])


def needs_no_front_door(module: str) -> bool:
    path = "/".join(module.split(".")[1:])
    return path.startswith("cli/") or path in PROCESSES or path.rpartition("/")[0] in LISTED


def test_what_only_its_room_uses_begins_with_an_underscore_and_the_rest_does_not() -> None:
    wrong = []
    for module, users in importers().items():
        if module.count(".") < 2:
            continue
        last = module.split(".")[-1]
        outside = {
            user
            for user in users
            if home_of(user) != home_of(module) and not module.startswith(f"{user}.")
        }
        if last.startswith("_") and not last.startswith("__") and outside:
            wrong.append(f"{', '.join(sorted(outside))} reach past the front door to {module}")
        is_package = (ROOT / "src" / Path(*module.split("."))).is_dir()
        public = not last.startswith("_") and not is_package
        if public and not outside and not needs_no_front_door(module):
            wrong.append(f"{module} is used by its room alone: _{last}")
    assert wrong == []


@pytest.mark.parametrize("room", SUB_ROOMS)
def test_rooms_within_rooms_keep_the_direction(room: str) -> None:
    order = SUB_ROOMS[room]
    for path in (PACKAGE / room).glob("*/*.py"):
        here = path.parent.name
        if here not in order:  # Its files are found by listing it.
            continue
        for imported in imports_within(PACKAGE)[module_name(path, PACKAGE)]:
            top, other, *_ = [*imported.split(".")[1:], "", ""]
            if top == room and other in order:
                assert order.index(other) <= order.index(here), f"{path} imports {imported}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert_no_circle(imports_within(PACKAGE))


def assert_no_circle(graph: Mapping[Any, Collection[Any]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail(f"a circle of imports: {' <- '.join(map(str, circle.args[1]))}")


def test_a_circle_of_imports_is_seen() -> None:
    modules = {"a": "def f():\n    from b import x", "b": "import c", "c": "from a import f"}
    graph = {name: {*imported_modules(ast.parse(text), modules)} for name, text in modules.items()}
    with pytest.raises(pytest.fail.Exception, match="circle"):
        assert_no_circle(graph)
    assert_no_circle({**graph, "c": ()})


def test_the_map_names_what_there_is() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.(?:py|sql))?)`", text))
    assert len(named) > 50
    assert [
        name for name in sorted(named) if not any((d / name).exists() for d in (PACKAGE, ROOT))
    ] == []
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert rooms <= {name.partition("/")[0] for name in named}
    assert rooms <= {*ROOMS}, "a room without a place in the order"


def test_the_map_has_the_rooms_in_their_order() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    drawn = text.partition("    json_types, ")[2].partition("\n\n")[0]
    assert ["json_types", *re.findall("[a-z_]+", drawn)] == [
        room for room in ROOMS if room != "_engine"
    ]


def test_each_word_is_defined_in_a_file() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| (.+) \| .+ \| (.+) \|$", text.partition("## Words")[2], re.MULTILINE)
    words = dict(rows[1:])
    assert len(words) > 25
    for word, files in words.items():
        named = re.findall(r"`([^`]+)`", files)
        assert named, f"{word} is defined nowhere"
        for name in named:
            assert any((d / name).is_file() for d in (PACKAGE, ROOT)), f"{word}: no file {name}"


def test_analysis_knows_no_server() -> None:
    for room in ("stats", "facts", "rules", "diagnose", "report", "remedy"):
        for path in (PACKAGE / room).rglob("*.py"):
            assert "psycopg" not in path.read_text(), f"{path} reaches for a server"


def test_the_conductor_does_not_know_what_it_is_for() -> None:
    for path in (PACKAGE / "conduct").rglob("*.py"):
        known = re.findall("(?i)drill|remed|price", path.read_text())
        assert not known, f"{path} imports {known}"


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("words", "said"),
    [("--help", "investigate"), ("--version", "pgdyno "), ("run --help", "--transactions")],
)
def test_help_loads_nothing_heavy(words: str, said: str) -> None:
    code = (
        f"import sys; sys.argv = ['pgdyno', *{words.split()}]\n"
        "from pgdyno.cli import _status; _status()\n"
        "print(sorted({m.partition('.')[0] for m in sys.modules}"
        " & {'numpy', 'scipy', 'bokeh', 'psycopg', 'pydantic', 'rich', 'sqlite3', 'email',"
        " 'difflib', 'secrets'}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert said in done.stdout


def test_a_result_is_stored_and_loaded_without_those_of_other_commands() -> None:
    code = (
        "import sys; from pgdyno.results import load, store\n"
        "print(sorted(name for name in sys.modules if name.startswith('pgdyno.results.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['pgdyno.results._stored']"


@pytest.mark.usefixtures("engine")
def test_a_summary_in_the_terminal_loads_neither_charts_nor_other_commands() -> None:
    code = (
        "import sys, pgdyno.report.terminal._run_summary\n"
        "from pgdyno.report.view import view_of; view_of('run')\n"
        "heavy = {'bokeh', 'jinja2', 'scipy', 'numpy'} & set(sys.modules)\n"
        "others = ('pgdyno.drill', 'pgdyno.price', 'pgdyno.check', 'pgdyno.report.views.')\n"
        "print(sorted(heavy), [name for name in sys.modules if name.startswith(others)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] ['pgdyno.report.views.run']"


@pytest.mark.usefixtures("engine")
def test_what_runs_a_load_and_diagnoses_it_loads_no_numpy() -> None:
    """It is loaded when enough was measured for statistics."""
    code = (
        "import sys, pgdyno.cli.session, pgdyno.investigate.run\n"
        "print(sorted({'numpy', 'scipy', 'bokeh', 'pgdyno.govern'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
