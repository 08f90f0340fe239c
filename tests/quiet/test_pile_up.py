"""The scenario pgpool-storm in small: what is found in each of its chapters on a real pgpool-II."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from pgdyno.server import Installation

SCENARIOS = Path(__file__).parents[2] / "scenarios"
SCHEMA = Path(__file__).parents[2] / "docs/reference/result-story.schema.json"
STORM = {
    "max_connections = 320": "max_connections = 80",
    "num_init_children = 300": "num_init_children = 70",
    "count = 1000": "count = 60",
    "pool = { max = 100 }": "pool = { max = 6 }",
    "count = 180": "count = 45",
    '"pooler.num_init_children" = 200': '"pooler.num_init_children" = 30',
    'hold = "16s"': 'hold = "13s"\nmax_other_programs = 1',
}
"""The scenario pgpool-storm on a smaller scale."""


@pytest.mark.parametrize(
    ("chapter", "ending"),
    [
        (1, {"idle-connections": "found"}),
        (2, {"idle-connections": "cleared", "unreaped-connections": "cleared"}),
        (3, {"idle-connections": "found", "unreaped-connections": "found"}),
        (4, {"pooler-client-limit": "found"}),
    ],
)
def test_the_pile_up_behind_pgpool(
    tmp_path: Path,
    installation_of: Callable[[int], Installation],
    chapter: int,
    ending: dict[str, str],
) -> None:
    installation_of(18)
    if shutil.which("pgpool", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        pytest.skip("no pgpool on this machine")
    text = (SCENARIOS / "pgpool-storm.toml").read_text()
    for word, smaller in STORM.items():
        assert word in text
        text = text.replace(word, smaller)
    (tmp_path / "storm.toml").write_text(text)
    words = ("--only", str(chapter), "-q", "--format", "json", "-o", "run.db")
    said = subprocess.run(
        [sys.executable, "-m", "pgdyno", "story", "storm.toml", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    result = json.loads(said.stdout)
    jsonschema.validate(result, json.loads(SCHEMA.read_text()))
    (told,) = result["chapters"]
    assert told["kind"] == "run"
    assert told["endings"] == ending
    assert "connections to the server, of which" in told["sentences"][0]
    page = (tmp_path / result["page"]).read_text()
    for name in ending:
        assert f"{name}: {ending[name]}" in page
