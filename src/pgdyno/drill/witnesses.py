"""Known contents of a database before a crash, for comparison afterwards.

:func:`prepare` creates the table for the witnesses of the load's transactions, and objects that a
crash must not change: cold tables, an unlogged table (which it must empty), a sequence. Of the
user's tables it records what the load cannot change, as far as the scripts show it: hashes of
tables that no script names, row counts of tables that scripts only read and update, and pgbench's
balances. ``checks`` compares them after the crash.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgdyno.conduct import Acks, check_scripts
from pgdyno.drill._queries import query, statements
from pgdyno.drill._workloads import are_unlogged, checked_after
from pgdyno.errors import SetupError, UsageError
from pgdyno.spec import Spec
from pgdyno.spec.sql_text import quoted
from pgdyno.workload import PGBENCH_COLUMNS, Workload, schema_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pgdyno.record import AckLedger
    from pgdyno.server.connecting.control import Control

WITNESS_TABLE = "public.pgdyno_witness"
"""Table of the witnesses."""
SCHEMA = "pgdyno_drill"
COLD_TABLES = (f"{SCHEMA}.cold_written", f"{SCHEMA}.cold_dirty")
UNLOGGED_TABLE = f"{SCHEMA}.unlogged"
SEQUENCE = f"{SCHEMA}.numbers"
READY = "pgdyno: witnesses are ready"
"""Log message after everything has been created."""
_HASHED_BYTES_MAX = 256 << 20
"""Size above which a table's rows are only counted."""
_STANDBYS_SECONDS_MAX = 60.0
_PGBENCH_TABLE = re.compile(r"\bpgbench_(accounts|tellers|branches|history)\b")
_DYNAMIC = re.compile(
    r"\b(call|do(?!\s+(nothing|update))|execute|prepare|create|drop|alter)\b|:\w+\s*\."
)
"""Commands that may write to tables that the script does not name."""


@dataclass(frozen=True)
class TableContents:
    """The contents of a table."""

    name: str
    """Quoted and qualified as SQL needs it."""
    rows: int
    digest: str | None
    """Hash of all rows, independent of their order; ``None``: only their number is known."""


@dataclass(frozen=True)
class ZeroSum:
    """pgbench's balances: the sum in each table. Their differences must not change."""

    accounts: int
    tellers: int
    branches: int
    history: int
    all_alike: bool
    """True if every transaction adds the same to all four; otherwise only tellers and branches
    change together, and accounts and history."""

    def differences(self) -> tuple[int, ...]:
        """Return the differences that no transaction changes."""
        pairs = (self.accounts - self.history, self.tellers - self.branches)
        return (*pairs, self.accounts - self.tellers) if self.all_alike else pairs


@dataclass(frozen=True)
class Witnesses:
    """The known contents of a database before the crash.

    Kept recordings contain its fields by name.
    """

    cold: tuple[TableContents, ...]
    untouched: tuple[TableContents, ...]
    """The user's tables that the load does not change, or whose number of rows it does not."""
    why_untouched: str
    """Reason why the user's tables cannot be known; '' if they can."""
    unlogged_rows: int
    number: int
    """The highest number that the sequence had returned."""
    zero_sum: ZeroSum | None
    why_no_zero_sum: str = ""
    """Reason why there is no ``zero_sum``."""
    checked: tuple[str, ...] = ()
    """Workloads whose tables are checked by rules of their own."""


def witnessed(directory: Path) -> Acks:
    """Return the ack ledger of a load in ``directory``, whose witnesses have a new label."""
    label = time.time_ns()
    return Acks(directory, label, partial(witness_statement, label))


def witness_statement(label: int, group: int) -> str:
    """Return the statement that writes a witness, for a group by its number in the ledger."""
    return (
        f"insert into {WITNESS_TABLE} (load, grp, client, txn)"
        f" values ({label}, {group}, :client_id, :txn)"
    )


def check_witnesses(spec: Spec) -> None:
    """Raise UsageError for a script whose transactions cannot write witnesses.

    No server is started or connected to.
    """
    try:
        check_scripts(spec, witnessed(Path("acks")))
    except UsageError as problem:
        reason = "in a drill every transaction writes its witness just before its last COMMIT"
        problem.hint = f"{problem.hint}; {reason}" if problem.hint else reason
        raise


def prepare(
    conn: Control,
    workloads: Mapping[str, Workload] | None = None,
    *,
    unlogged: bool = False,
) -> Witnesses:
    """Create the drill's tables, and record the contents of the database.

    ``conn`` is in autocommit mode. ``workloads`` are those of the load, by group; without them
    nothing is known of the user's tables. With ``unlogged`` the witness table is unlogged, like the
    load's own tables. Existing tables of a drill are replaced. Raises SetupError when the server
    refuses, or when its standbys do not catch up.
    """
    conn.execute("set synchronous_commit = on")
    _execute(conn, "prepare")
    if unlogged:
        conn.execute(f"alter table {WITNESS_TABLE} set unlogged".encode())
    _install_amcheck(conn)
    texts = None if workloads is None else _texts(workloads)
    untouched, why_untouched = _untouched(conn, texts)
    zero_sum, why_no_zero_sum = _zero_sum(conn, texts)
    witnesses = Witnesses(
        cold=tuple(table_state(conn, name) for name in COLD_TABLES),
        untouched=untouched,
        why_untouched=why_untouched,
        unlogged_rows=count_rows(conn, UNLOGGED_TABLE),
        number=last_number(conn),
        zero_sum=zero_sum,
        why_no_zero_sum=why_no_zero_sum,
        checked=checked_after(conn, texts or ()),
    )
    _wait_for_standbys(conn)
    return witnesses


def renew(conn: Control, witnesses: Witnesses) -> Witnesses:
    """Make a database ready for the next load after a crash; faster than :func:`prepare`.

    Cold tables are not read again, except the one that must be dirty when the load begins.
    """
    conn.execute("set synchronous_commit = on")
    _execute(conn, "renew")
    kept = [state for state in witnesses.cold if state.name != COLD_TABLES[1]]
    renewed = replace(
        witnesses,
        cold=(*kept, table_state(conn, COLD_TABLES[1])),
        unlogged_rows=count_rows(conn, UNLOGGED_TABLE),
        number=last_number(conn),
    )
    _wait_for_standbys(conn)
    return renewed


def scripts_set_commit(workloads: Mapping[str, Workload]) -> bool:
    """True if a script sets synchronous_commit itself."""
    return any("synchronous_commit" in _without_comments(text) for text in _texts(workloads))


def read_witnesses(conn: Control, acks: AckLedger) -> NDArray[Any]:
    """Return the witnesses of the ledger's loads, for :func:`~pgdyno.drill._ledger.compare`.

    They are read from the table and not through its index, which may be damaged independently.
    """
    import numpy as np

    from pgdyno.drill._ledger import WITNESS_COLUMNS

    labels = np.array([load.label for load in acks.loads], dtype=np.int64)
    wanted = ", ".join(str(label) for label in labels)
    with conn.transaction():
        conn.execute("set local enable_indexscan = off")
        conn.execute("set local enable_indexonlyscan = off")
        conn.execute("set local enable_bitmapscan = off")
        command = (
            f"copy (select load, grp, client, txn, port from {WITNESS_TABLE}"
            f" where load in ({wanted})) to stdout (delimiter ' ')"
        )
        with conn.cursor().copy(command.encode()) as copy:
            text = b"".join(bytes(block) for block in copy)
    columns = np.fromstring(text.decode(), dtype=np.int64, sep=" ").reshape(
        -1, len(WITNESS_COLUMNS)
    )
    present = np.empty(len(columns), dtype=np.dtype(WITNESS_COLUMNS))
    order = np.argsort(labels)
    present["load"] = order[np.searchsorted(labels, columns[:, 0], sorter=order)]
    for number, (name, _) in enumerate(WITNESS_COLUMNS[1:], start=1):
        present[name] = columns[:, number]
    return present


def table_state(conn: Control, name: str) -> TableContents:
    """Count and hash the rows of a table; ``name`` is as SQL needs it."""
    rows, digest = conn.execute(query("table_state", table=name)).fetchone() or (0, "")
    return TableContents(name, int(rows), str(digest))


def count_rows(conn: Control, name: str) -> int:
    """Return the number of rows of a table; ``name`` is as SQL needs it."""
    row = conn.execute(f"select count(*) from {name}".encode()).fetchone()
    return int(row[0]) if row else 0


def balances(conn: Control, *, all_alike: bool) -> ZeroSum:
    """Return pgbench's present balances."""
    schema = quoted(schema_of(conn, next(iter(PGBENCH_COLUMNS))))
    row = conn.execute(query("balances", schema=schema)).fetchone()
    assert row is not None
    accounts, tellers, branches, history = (int(value) for value in row)
    return ZeroSum(accounts, tellers, branches, history, all_alike)


def last_number(conn: Control) -> int:
    """Return the highest number that the sequence has returned, or may have."""
    row = conn.execute(f"select last_value from {SEQUENCE}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def _execute(conn: Control, name: str) -> None:
    """Execute the statements of a file one by one; some cannot run in a transaction."""
    import psycopg

    try:
        for statement in statements(name):
            conn.execute(statement)
    except psycopg.Error as error:
        message = error.diag.message_primary or str(error)
        raise SetupError(
            f"cannot create the tables of the drill: {message}",
            code="witnesses",
            hint=error.diag.message_hint,
        ) from None


def _install_amcheck(conn: Control) -> None:
    """Install amcheck, so that nothing has to be installed after the crash."""
    found = conn.execute("select from pg_available_extensions where name = 'amcheck'").fetchone()
    if found is not None:
        conn.execute("create extension if not exists amcheck schema pg_catalog")


def _texts(workloads: Mapping[str, Workload]) -> list[str]:
    return list({script.text for each in workloads.values() for script in each.scripts})


def _untouched(conn: Control, texts: Iterable[str] | None) -> tuple[tuple[TableContents, ...], str]:
    if texts is None:
        return (), "the load's scripts are not known"
    bare = [_without_comments(text) for text in texts]
    if any(_DYNAMIC.search(text) for text in bare):
        return (), "a script uses commands that may change any table"
    hidden = conn.execute(query("hidden_writers")).fetchone()
    if hidden is None or hidden[0]:
        return (), "triggers, rules or functions may change any table"
    states = []
    for name, relation, bytes_ in conn.execute(query("tables")).fetchall():
        if _may_gain_or_lose_rows(relation, bare):
            continue
        if bytes_ <= _HASHED_BYTES_MAX and not any(_mentions(text, relation) for text in bare):
            states.append(table_state(conn, name))
        else:
            states.append(TableContents(name, count_rows(conn, name), None))
    return tuple(states), ""


def _without_comments(text: str) -> str:
    return re.sub(r"--[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL).lower()


def _mentions(text: str, relation: str) -> bool:
    return re.search(rf"\b{re.escape(relation.lower())}\b", text) is not None


def _may_gain_or_lose_rows(relation: str, texts: Iterable[str]) -> bool:
    verbs = r"(insert\s+into|delete\s+from|merge\s+into|copy|truncate(\s+table)?)"
    target = rf'\b{verbs}\s+(only\s+)?("?\w+"?\s*\.\s*)?"?{re.escape(relation.lower())}\b'
    listed = r"\btruncate\b[^;]*,"
    return any(
        re.search(target, text) or (_mentions(text, relation) and re.search(listed, text))
        for text in texts
    )


def _zero_sum(conn: Control, texts: Iterable[str] | None) -> tuple[ZeroSum | None, str]:
    from pgdyno._engine import builtin_scripts

    if texts is None:
        return None, "the load's scripts are not known"
    names = {text: name for name, text in builtin_scripts().items()}
    using = [text for text in texts if _PGBENCH_TABLE.search(_without_comments(text))]
    if not any(names.get(text) in ("tpcb-like", "simple-update") for text in using):
        return None, "no script of pgbench writes to its tables"
    if any(text not in names for text in using):
        return None, "another script uses pgbench's tables"
    if are_unlogged(conn, PGBENCH_COLUMNS):
        return None, "pgbench's tables are unlogged: a crash empties them"
    all_alike = all(names[text] != "simple-update" for text in using)
    return balances(conn, all_alike=all_alike), ""


def _wait_for_standbys(conn: Control) -> None:
    """Wait until every standby has the drill's tables, which a fault may destroy on the primary."""
    deadline = time.monotonic() + _STANDBYS_SECONDS_MAX
    while True:
        row = conn.execute(query("standbys_behind")).fetchone()
        if row is None or row[0] == 0:
            return
        if time.monotonic() > deadline:
            raise SetupError(
                f"a standby did not catch up within {_STANDBYS_SECONDS_MAX:.0f} s",
                code="standby-behind",
                hint="use a smaller delay of the replication connection",
            )
        time.sleep(0.05)
