"""Figures of the house, counted in a made-up tree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benches.house import Sources, house_of, longest_chain, main, text_of

FILES = {
    "src/pgdyno/__init__.py": '"""The package."""\n',
    "src/pgdyno/__main__.py": '"""Start."""\n\nfrom pgdyno.roof import show\n',
    "src/pgdyno/errors.py": '"""Errors."""\n\n\nclass Plan(Exception):\n    pass\n',
    "src/pgdyno/spec/__init__.py": '"""Specs."""\n\nfrom pgdyno.spec._model import Plan as Plan\n',
    "src/pgdyno/spec/_model.py": '''"""Model."""

import pgdyno.errors

LINES = 3
"""True if nothing

is amiss."""


class Plan:  # a comment beside code
    """Return what is planned."""

    def size(self) -> int:
        """Return the size."""
        # A comment.
        return 3
''',
    "src/pgdyno/storm/__init__.py": '"""Storms."""\n',
    "src/pgdyno/storm/procedure.py": '''"""Carry a storm out."""

from pgdyno.spec import Plan
from pgdyno.spec._model import (
    LINES,
)


def carry_out() -> None:
    def step() -> None:
        print(LINES, Plan)

    step()


def _hidden() -> None:
    from pgdyno.errors import Plan
''',
    "src/pgdyno/roof/__init__.py": '''"""Roof."""

from pgdyno.storm.procedure import carry_out


async def show() -> None:
    storm_result = carry_out()
    Storm, brainstorm, storms
''',
    "src/pgdyno/roof/page.html": "the storm",
    "src/pgdyno/roof/words/_storm.py": '"""Words of a storm."""\n' + "x = 1\n" * 40,
    "tests/helper.py": "assert 'one two three' == x\n",
    "tests/unit/test_x.py": """
def test_quoting():
    assert said(1) == f"it is broken: {x}"
    assert x == 1


def test_not_quoting():
    assert x == "two words", "this is said of it"
    assert x["key of three words"] == snapshot("the whole of a text")
""",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with the files."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_all_is_counted(root: Path) -> None:
    house = house_of(Sources(root))
    assert {name: row["number"] for name, row in house["figures"].items()} == {
        "modules": 9,
        "modules of at most 40 lines": 8,
        "lines": 96,
        "lines of code": 54,
        "lines of docstrings": 14,
        "lines of imports": 9,
        "class names in several files": 1,
        "imports": 7,
        "imports between rooms": 6,
        "imports past a front door": 2,
        "imports past a front door, % of those into packages": 50.0,
        "rooms in the longest chain": 4,
        'docstrings that begin "Return"': 2,
        'docstrings that begin "Return what"': 1,
        'docstrings that begin "True if"': 1,
        'docstrings that begin "Whether"': 0,
        "asserts": 5,
        "asserts that quote English, %": 20.0,
        "asserts in tests that quote English, %": 40.0,
    }
    assert house["lines"] == {
        "of a file": {"median": 5, "p90": 41, "max": 41},
        "of a function": {"median": 3, "p90": 5, "max": 5},
    }
    assert house["rooms"] == {
        "errors": {"files": 1, "lines": 5, "public names": 1},
        "roof": {"files": 2, "lines": 49, "public names": 1},
        "spec": {"files": 2, "lines": 20, "public names": 1},
        "storm": {"files": 2, "lines": 18, "public names": 1},
    }
    assert list(house["10 longest files"].values())[:2] == [{"lines": 41}, {"lines": 17}]


def test_names_are_listed_with_files(root: Path) -> None:
    sources = Sources(root)
    assert sources.class_names() == {"Plan": ["errors.py", "spec/_model.py"]}
    assert sources.mentions("storm") == {"roof/__init__.py": 3, "roof/page.html": 1}


def test_the_longest_chain_goes_from_room_to_room(root: Path) -> None:
    assert longest_chain(Sources(root).imports) == ["roof", "storm", "spec", "errors"]
    assert longest_chain({"pgdyno.a": {"pgdyno.b"}, "pgdyno.b": {"pgdyno.a"}}) == []


def test_figures_are_compared_with_those_kept(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--root", str(root), "--format", "json"])
    kept = root / "house.json"
    kept.write_text(capsys.readouterr().out)
    house = house_of(Sources(root))
    assert json.loads(kept.read_text()) == house
    (root / "src/pgdyno/spec/new.py").write_text("def f():\n    pass\n")
    (root / "src/pgdyno/errors.py").unlink()
    main(["--root", str(root), "--against", str(kept)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["modules", "9"] in lines
    assert ["lines", "96", "→", "93"] in lines
    assert ["spec", "2", "→", "3", "20", "→", "22", "1", "→", "2"] in lines
    assert ["errors", *["1", "→", "–"], *["5", "→", "–"], *["1", "→", "–"]] in lines
    assert "→" not in text_of(house)
