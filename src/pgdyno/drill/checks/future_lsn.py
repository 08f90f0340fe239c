"""No page is from a future that the WAL does not know; see ``pages.py``."""

from __future__ import annotations

from pgdyno.drill.checking import CheckRule, Scene, Seen, Stage
from pgdyno.drill.pages import PAGE_BYTES, lsn_text, parse_lsn, scan_pages


def _look(scene: Scene) -> Seen:
    cluster = scene.cluster
    page_bytes = int(cluster.control_data().get("Database block size", PAGE_BYTES))
    # The server runs, and may write a little meanwhile: what it has written by the time that a
    # page is read is below the end of WAL that is asked for after that.
    seen = scan_pages(cluster.data_dir, _end_of_wal(scene), page_bytes=page_bytes)
    end = _end_of_wal(scene)
    if seen.beyond:
        seen = scan_pages(cluster.data_dir, end, page_bytes=page_bytes)
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
