"""No page has an LSN beyond the end of the WAL; see ``_pages.py``."""

from __future__ import annotations

import re

from pgdyno.drill._checking import CheckContext, CheckResult, CheckRule, Stage
from pgdyno.drill._pages import scan_pages
from pgdyno.server.lsn import lsn_text, parse_lsn

_REDO_DONE = re.compile(r"redo done at ([0-9A-F]+/[0-9A-F]+)")
_LAST_RECORD_BYTES_MAX = 16384
"""Greatest distance from the start of the last record, which is logged, to the LSN of a page that
it changed."""


def _run(context: CheckContext) -> CheckResult:
    done = _REDO_DONE.search(context.recovery.log)
    if context.newest_lsn is not None and done is not None:
        # Redo may overwrite such pages with old images, but not their part in pg_xact, whose pages
        # have no LSN. So the state before redo counts.
        end = parse_lsn(done[1]) + _LAST_RECORD_BYTES_MAX
        if context.newest_lsn > end:
            return False, (
                f"before the start there were pages beyond the end of WAL, the newest at"
                f" {lsn_text(context.newest_lsn)}; redo was done at {done[1]}"
            )
    # The server runs and may write meanwhile: a page that it has written before the first scan is
    # below the end of WAL that is queried after it.
    scan = scan_pages(context.cluster, _end_of_wal(context))
    end = _end_of_wal(context)
    if scan.beyond:
        scan = scan_pages(context.cluster, end)
    if not scan.beyond:
        highest = lsn_text(scan.highest_lsn)
        return True, f"{scan.pages:,} pages, the newest {highest}; WAL ends at {lsn_text(end)}"
    first = scan.first_beyond[0]
    return False, (
        f"{scan.beyond:,} of {scan.pages:,} pages are beyond the end of WAL, {lsn_text(end)}:"
        f" block {first.block} of {first.path} at {lsn_text(first.lsn)}"
    )


def _end_of_wal(context: CheckContext) -> int:
    row = context.conn.execute("select pg_current_wal_insert_lsn()").fetchone()
    assert row is not None
    return parse_lsn(str(row[0]))


CHECK = CheckRule("future-lsn", Stage.PAGES, _run)
