"""Runs with a dump as their setup: their run files, and what repeats them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from pgdyno.record import RunFile

Pgdyno = Callable[..., Any]
pytestmark = [pytest.mark.server, pytest.mark.usefixtures("nothing_left")]
DUMP = """\
\\restrict abc
create table customer (name text);
copy customer (name) from stdin;
a-customer-of-ours
\\.
\\unrestrict abc
"""


def test_rows_are_not_recorded_and_read_again(pgdyno: Pgdyno, monkeypatch: Any) -> None:
    Path("shop.sql").write_text(DUMP)
    Path("s.sql").write_text("select count(*) from customer;\n")
    Path("own.toml").write_text(
        '[workload]\nsetup = "shop.sql"\nscript = [{ file = "s.sql" }]\n'
        '[load]\nhold = "300ms"\nmax_other_programs = 1\n'
    )
    said = pgdyno("run", "own.toml", "-q", "--format", "json", "-o", "run.db")
    assert said.status in (0, 4), said.err
    with RunFile(Path("run.db")) as run:
        workload = run.run.spec["workload"]
        assert workload["setup"] == str(Path("shop.sql").absolute())
        assert (workload["setup_text"], len(workload["setup_sha256"])) == (None, 64)
        assert run.ledger().done > 0
    assert b"a-customer-of-ours" not in Path("run.db").read_bytes()
    here = Path.cwd()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    said = pgdyno("run", "../run.db", "-q", "--format", "json", "-o", "again.db")
    assert said.status in (0, 4), said.err

    def refused() -> str:
        said = pgdyno("run", "../run.db", "-q")
        assert said.status == 1
        return str(said.err).replace(str(here), "HERE")

    (here / "shop.sql").write_text(DUMP.replace("ours", "theirs"))
    assert refused() == snapshot("""\
error: the setup HERE/shop.sql is not the file of the run any more: it has changed

hint: the rows of a dump are not recorded; restore the file, or name another in a spec
""")
    (here / "shop.sql").write_text("select 1;\n")
    assert refused() == snapshot("""\
error: the setup HERE/shop.sql is not the file of the run any more: it has changed

hint: the rows of a dump are not recorded; restore the file, or name another in a spec
""")
    (here / "shop.sql").unlink()
    assert refused() == snapshot("""\
error: ../run.db does not have the text of HERE/shop.sql, and that file no longer exists

hint: the rows of a dump are not recorded; restore the file
""")
