"""pgbench's tables, the same as ``pgbench -i -s SCALE`` makes them.

Same steps in the same order: tables, rows by COPY, vacuum and analyze, then primary keys. The rows
of one branch differ from those of another only in two numbers, so their text is made once and the
numbers are put in by byte replacement; the server's COPY is then what takes the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pgdyno.server import ConnInfo, connect
from pgdyno.workload.queries import query, setup_errors

if TYPE_CHECKING:
    import psycopg

ACCOUNTS_PER_BRANCH = 100_000
TELLERS_PER_BRANCH = 10
_SCALE_OF_64_BITS = 20_000  # From here on account numbers do not fit an int; pgbench's threshold.
_CHUNKS_PER_BRANCH = 4
_KEYED = {"pgbench_accounts": "aid", "pgbench_branches": "bid", "pgbench_tellers": "tid"}
_TABLES = {*_KEYED, "pgbench_history"}


def prepare_pgbench(
    conninfo: ConnInfo, scale: int, progress: Callable[[str, int, int], None]
) -> None:
    """Make the four tables, unless they are there, whole, and of this scale.

    Tables that are used again get what pgbench gives them before a run: an empty history, and a
    vacuum of the two small tables.
    """
    with connect(conninfo) as conn, setup_errors("pgbench's tables"):
        if _scale_there(conn) == scale:
            conn.execute("vacuum pgbench_branches, pgbench_tellers")
            conn.execute("truncate pgbench_history")
            return
        with conn.transaction():
            _create(conn, scale)
        with conn.transaction():
            _fill(conn, scale, progress)
        steps = [
            *(f"vacuum analyze {table}" for table in sorted(_TABLES)),
            *(f"alter table {name} add primary key ({key})" for name, key in _KEYED.items()),
        ]
        for done, step in enumerate(steps):
            progress("vacuum and primary keys", done, len(steps))
            conn.execute(step.encode())
        progress("vacuum and primary keys", len(steps), len(steps))


def _scale_there(conn: psycopg.Connection) -> int | None:
    """The scale of the tables that are there; ``None`` when one is missing or half made."""
    keyed: dict[str, bool] = dict(conn.execute(query("pgbench_shape")).fetchall())
    if set(keyed) != _TABLES or not all(keyed[table] for table in _KEYED):
        return None
    row = conn.execute(query("pgbench_scale")).fetchone()
    assert row is not None
    branches, tellers, accounts = row
    whole = (tellers, accounts) == (branches * TELLERS_PER_BRANCH, branches * ACCOUNTS_PER_BRANCH)
    return int(branches) if whole else None


def _create(conn: psycopg.Connection, scale: int) -> None:
    aid = "bigint" if scale >= _SCALE_OF_64_BITS else "int"
    conn.execute(query("pgbench_tables").replace(b"{aid}", aid.encode()))


def _fill(conn: psycopg.Connection, scale: int, progress: Callable[[str, int, int], None]) -> None:
    # Truncated in the same transaction, so that COPY may freeze rows and spare a later vacuum.
    conn.execute("truncate pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers")
    cursor = conn.cursor()
    with cursor.copy("copy pgbench_branches (bid, bbalance) from stdin with (freeze)") as copy:
        copy.write(b"".join(b"%d\t0\n" % bid for bid in range(1, scale + 1)))
    with cursor.copy("copy pgbench_tellers (tid, bid, tbalance) from stdin with (freeze)") as copy:
        for branch in range(scale):
            first = branch * TELLERS_PER_BRANCH + 1
            tellers = range(first, first + TELLERS_PER_BRANCH)
            copy.write(b"".join(b"%d\t%d\t0\n" % (tid, branch + 1) for tid in tellers))
    total = scale * ACCOUNTS_PER_BRANCH
    with cursor.copy("copy pgbench_accounts from stdin with (freeze)") as copy:
        done = 0
        for rows, count in _account_rows(scale):
            progress("pgbench_accounts", done, total)
            copy.write(rows)
            done += count
    progress("pgbench_accounts", total, total)


def _account_rows(scale: int) -> Iterator[tuple[bytes, int]]:
    """COPY text of all accounts in order, in pieces, each with its number of rows.

    Account ``branch * 100000 + k`` is written as the branch followed by k in five digits; leading
    zeros do no harm. Only the last of a branch, k = 100000, carries over.
    """
    size = ACCOUNTS_PER_BRANCH // _CHUNKS_PER_BRANCH
    templates = [
        b"".join(
            b"<%05d\t>\t0\t\n" % k if k < ACCOUNTS_PER_BRANCH else b">00000\t>\t0\t\n"
            for k in range(start + 1, start + size + 1)
        )
        for start in range(0, ACCOUNTS_PER_BRANCH, size)
    ]
    for branch in range(scale):
        for template in templates:
            rows = template.replace(b"<", b"%d" % branch).replace(b">", b"%d" % (branch + 1))
            yield rows, size
