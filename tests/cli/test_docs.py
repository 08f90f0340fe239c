"""What is generated from the code is as the code has it now; man pages are read without complaint."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def generate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("generate")


def test_the_command_reference_is_fresh(generate: ModuleType) -> None:
    assert generate.REFERENCE.read_text() == generate.reference(), "run make docs"


def test_the_reference_of_findings_is_fresh(generate: ModuleType) -> None:
    assert generate.FINDINGS.read_text() == generate.findings(), "run make docs"


def test_the_reference_of_findings_has_the_values_of_constants(generate: ModuleType) -> None:
    page = generate.findings()
    assert re.findall(r"`[A-Z]+_[A-Z_]+`", page) == []
    assert "## advisory-lock" in page
    assert "## unread-indexes" in page


def test_the_schemas_of_results_are_fresh(generate: ModuleType) -> None:
    made = generate.result_schemas()
    assert {path: path.read_text() for path in made} == made, "run make docs"
    assert set((ROOT / "docs/reference").glob("result-*.schema.json")) == made.keys()


def test_the_man_pages_are_fresh(generate: ModuleType) -> None:
    there = {page.name: page.read_text() for page in generate.MAN_PAGES.glob("*.1")}
    assert there == generate.man_pages(), "run make docs"


def test_the_package_takes_all_guides_along(generate: ModuleType) -> None:
    pages = [page for page in generate.GUIDES.rglob("*") if page.is_symlink()]
    there = {page: str(page.readlink()) for page in pages}
    assert there == generate.guides(), "run make docs"


def test_man_pages_are_read_without_complaint(generate: ModuleType) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is missing")
    for page in generate.MAN_PAGES.glob("*.1"):
        done = subprocess.run(
            ["groff", "-K", "utf8", "-man", "-Tutf8", "-ww", "-z", page],
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, ""), page.name
