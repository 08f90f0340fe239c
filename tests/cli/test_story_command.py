"""``pgdyno story`` as a user meets it: chapters, their endings, the exit status."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from inline_snapshot import snapshot
from printed import Said

from pgdyno.server import Installation

Pgdyno = Callable[..., Said]
SCHEMA = Path(__file__).parents[2] / "docs/reference/result-story.schema.json"

SPEC = """
name = "small"
server = { version = 18 }
clients = [{ count = 2 }]

[[story]]
title = "A shutdown, and the WAL gone"
remark = "Nothing but the last checkpoint's record is missing."
vary = { "disk.wal" = "plain" }
fault = "wal-device"
variant = "stopped"
expect = { "stopped/start" = "refused", "stopped/resetwal" = "ENDING" }

[[story]]
title = "Never carried out here"
settings = { commit_delay = 10 }
"""


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def numberless(text: str) -> str:
    """Every LSN and every number as N, every time as N s: what is the same for every run."""
    return re.sub(r"\bN ms\b", "N s", re.sub(r"\b[0-9A-F]+/[0-9A-F]+|\d+[\d.,]*", "N", text))


def test_a_chapter_as_text_and_otherwise_than_expected(
    pgdyno: Pgdyno, installation_of: Callable[[int], Installation]
) -> None:
    installation_of(18)
    Path("small.toml").write_text(SPEC.replace("ENDING", "corrupt"))
    said = pgdyno("story", "small.toml", "--only", "1", "-q", "-o", "run.db")
    assert said.status == 3
    assert numberless(said.out) == snapshot("""\
N  A shutdown, and the WAL gone
   stopped/start: refused to start: PANIC: could not locate a valid checkpoint record at N
   stopped/resetwal: all of N acknowledged commits are present, up again after N s
   expected      stopped/start: refused, stopped/resetwal: corrupt
   remark        Nothing but the last checkpoint's record is missing.
   run           run-Ndb

page    run.html
""")
    assert numberless(said.err) == snapshot("""\
error: chapter N A shutdown, and the WAL gone: unexpected outcome: stopped/start: refused, stopped/resetwal: clean

hint: pgdyno show run-Ndb
""")


def test_a_chapter_as_json(pgdyno: Pgdyno, installation_of: Callable[[int], Installation]) -> None:
    installation_of(18)
    Path("small.toml").write_text(SPEC.replace("ENDING", "clean"))
    said = pgdyno("story", "small.toml", "--only", "1", "-q", "--format", "json", "-o", "run.db")
    assert said.status == 0, said.err
    result = json.loads(said.out)
    assert "stopped/start" in Path(result["page"]).read_text()
    jsonschema.validate(result, json.loads(SCHEMA.read_text()))
    (chapter,) = result["chapters"]
    assert chapter["as_expected"] is True
    assert chapter["run_file"] == "run-1.db"
    assert Path("run-1.db").exists()


def test_what_cannot_be_told(pgdyno: Pgdyno) -> None:
    Path("none.toml").write_text('name = "none"')
    Path("small.toml").write_text(SPEC.replace("ENDING", "clean"))
    Path("key.toml").write_text(
        '[[story]]\ntitle = "t"\nfault = "kill"\nvary = { "server.kind" = "x" }\n'
    )
    asked = [("none.toml",), ("small.toml", "--only", "3"), ("key.toml",)]
    said = [pgdyno("story", *words, "-o", "run.db") for words in asked]
    assert [(each.status, each.out, each.err) for each in said] == snapshot(
        [
            (
                1,
                "",
                """\
error: none has no story

hint: a story has [[story]] tables, one for each chapter, as in scenarios/wal-on-ram.toml
""",
            ),
            (1, "", "error: no chapter 3: the story has 2\n"),
            (
                1,
                "",
                """\
error: server.kind: not a key that can differ between slices

hint: keys that can differ: load.*, workload.*, clients.GROUP.*, front.*, pooler.*, workload.ingest, workload.batch, standby.*, server.checksums, kernel.*, disk.wal, disk.data, workload.indexes.TABLE, workload.init.partitions, workload.table_options.TABLE.NAME, server.version, server.bindir; for example load.protocol=simple
""",
            ),
        ]
    )


def test_a_fault_that_is_not_there(pgdyno: Pgdyno) -> None:
    Path("fault.toml").write_text('[[story]]\ntitle = "t"\nfault = "lightning"\n')
    said = pgdyno("story", "fault.toml", "-o", "run.db")
    assert said.status == 1
    assert said.err.startswith('error: there is no fault "lightning"')
