"""Run files of real runs, one for each command with a result, for tests of all that is shown.

A recording is a run file as SQL text, compressed: inserts that name their columns, so that it can
still be restored when the schema has new ones. To replace one, run the command again (its words are
in the file) and give the run file to this program, which names the recording after it::

    pgdyno knee select-only -s 1 -c 16 --budget 30s -o /tmp/knee.db
    python tests/unit/recorded_runs.py /tmp/knee.db
    python -m pytest tests/unit/test_shown_results.py --inline-snapshot=create,fix
"""

from __future__ import annotations

import lzma
import sqlite3
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from pgdyno.record import fileformat

DIRECTORY = Path(__file__).with_name("recordings")
NAMES = sorted(path.name.removesuffix(".sql.xz") for path in DIRECTORY.glob("*.sql.xz"))


def restore(name: str, directory: Path) -> Path:
    """Write the run file of a recording to ``directory`` and return its path."""
    path = directory / f"{name}.db"
    inserts = lzma.decompress((DIRECTORY / f"{name}.sql.xz").read_bytes()).decode()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"pragma application_id = {fileformat.APPLICATION_ID}")
        db.execute(f"pragma user_version = {fileformat.SCHEMA_VERSION}")
        db.executescript(f"{fileformat.schema_sql()};\nbegin;\n{inserts}commit;\n")
    return path


def record(run: Path) -> Path:
    """Make a recording of a run file and return its path. Directories of the machine are left out:
    that of the file, and that of Python's packages."""
    with closing(sqlite3.connect(f"file:{run}?mode=ro", uri=True)) as db:
        text = "".join(_inserts(db)).replace(f"{run.resolve().parent}/", "")
    text = text.replace(sysconfig.get_path("purelib"), "/usr/lib/python3/dist-packages")
    recording = DIRECTORY / f"{run.stem}.sql.xz"
    recording.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    return recording


def _inserts(db: sqlite3.Connection) -> Iterator[str]:
    for table, columns in fileformat.columns().items():
        listed = ", ".join(columns)
        quoted = " || ', ' || ".join(f"quote({column})" for column in columns)
        for (values,) in db.execute(f"select {quoted} from {table} order by rowid"):
            yield f"insert into {table} ({listed}) values ({values});\n"


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(record(Path(given)))
