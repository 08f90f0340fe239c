"""No page is from a future that the WAL does not know; see ``pages.py``."""

from __future__ import annotations

import re

from pgdyno.drill._checking import CheckRule, Scene, Seen, Stage
from pgdyno.drill._pages import scan_pages
from pgdyno.server.lsn import lsn_text, parse_lsn

_REDO_DONE = re.compile(r"redo done at ([0-9A-F]+/[0-9A-F]+)")
_LAST_RECORD_BYTES_MAX = 16384
"""From where the last record begins, which the log tells, to where pages that it changed are."""


def _look(scene: Scene) -> Seen:
    done = _REDO_DONE.search(scene.recovery.log)
    if scene.newest_lsn is not None and done is not None:
        # Redo may put images of old pages over those of the future, and what belongs to them in
        # pg_xact, where pages have no LSN, stays: so it counts what was there before.
        end = parse_lsn(done[1]) + _LAST_RECORD_BYTES_MAX
        if scene.newest_lsn > end:
            return False, (
                f"before the start there were pages from beyond the end of WAL, the newest from"
                f" {lsn_text(scene.newest_lsn)}; redo was done at {done[1]}"
            )
    # The server runs, and may write a little meanwhile: what it has written by the time that a
    # page is read is below the end of WAL that is asked for after that.
    seen = scan_pages(scene.cluster, _end_of_wal(scene))
    end = _end_of_wal(scene)
    if seen.beyond:
        seen = scan_pages(scene.cluster, end)
    if not seen.beyond:
        highest = lsn_text(seen.highest_lsn)
        return True, f"{seen.pages:,} pages, the newest {highest}; WAL ends at {lsn_text(end)}"
    first = seen.first_beyond[0]
    return False, (
        f"{seen.beyond:,} of {seen.pages:,} pages are from beyond the end of WAL,"
        f" {lsn_text(end)}: block {first.block} of {first.path} from {lsn_text(first.lsn)}"
    )


def _end_of_wal(scene: Scene) -> int:
    row = scene.conn.execute("select pg_current_wal_insert_lsn()").fetchone()
    assert row is not None
    return parse_lsn(str(row[0]))


CHECK = CheckRule("future-lsn", Stage.PAGES, _look)
