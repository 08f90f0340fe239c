"""What is put into a database before a crash, and known outside it, to tell what it did.

:func:`prepare` makes the table in which the load's transactions note themselves, and things that a
crash has to leave alone: cold tables, an unlogged table (which it has to empty), a sequence. Of the
user's own tables it notes what the load cannot change, as far as the scripts show that: hashes of
tables that no script names, numbers of rows of those that scripts only read and update, and
whether pgbench's balances add up. ``checks`` compares afterwards.
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
from pgdyno.errors import SetupError, UsageError
from pgdyno.spec import Spec
from pgdyno.workload import Workload

if TYPE_CHECKING:
    import psycopg
    from numpy.typing import NDArray

    from pgdyno.record import AckLedger

WITNESS_TABLE = "public.pgdyno_witness"
"""Where the transactions of a load note themselves."""
SCHEMA = "pgdyno_drill"
COLD_TABLES = (f"{SCHEMA}.cold_written", f"{SCHEMA}.cold_dirty")
UNLOGGED_TABLE = f"{SCHEMA}.unlogged"
SEQUENCE = f"{SCHEMA}.numbers"
READY = "pgdyno: witnesses are ready"
"""What the server's log says when all of it has been made."""
_HASHED_BYTES_MAX = 256 << 20
"""Of larger tables only the rows are counted."""
_STANDBYS_SECONDS_MAX = 60.0
_PGBENCH_TABLE = re.compile(r"\bpgbench_(accounts|tellers|branches|history)\b")
_DYNAMIC = re.compile(
    r"\b(call|do(?!\s+(nothing|update))|execute|prepare|create|drop|alter)\b|:\w+\s*\."
)
"""What may write tables whose names the script does not show."""


@dataclass(frozen=True)
class TableState:
    """What a table holds."""

    name: str
    """Quoted and qualified as SQL needs it."""
    rows: int
    digest: str | None
    """Over all rows, whatever their order; ``None``: only their number is known."""


@dataclass(frozen=True)
class ZeroSum:
    """pgbench's balances before the load: what was added to each table. Differences must stay."""

    accounts: int
    tellers: int
    branches: int
    history: int
    all_alike: bool
    """Every transaction adds to all four; else tellers and branches go together, and accounts and
    history do."""

    def differences(self) -> tuple[int, ...]:
        """What no transaction can change."""
        pairs = (self.accounts - self.history, self.tellers - self.branches)
        return (*pairs, self.accounts - self.tellers) if self.all_alike else pairs


@dataclass(frozen=True)
class Witnesses:
    """What was known of a database before the crash."""

    cold: tuple[TableState, ...]
    untouched: tuple[TableState, ...]
    """The user's tables that the load does not change, or whose number of rows it does not."""
    why_untouched: str
    """Why there are no more of them; '' when nothing stands against it."""
    unlogged_rows: int
    number: int
    """The highest number that the sequence had handed out."""
    zero_sum: ZeroSum | None
    why_no_zero_sum: str = ""


def witnessed(directory: Path) -> Acks:
    """A ledger of a load in ``directory``, whose transactions leave witnesses under a new label."""
    label = time.time_ns()
    return Acks(directory, label, partial(witness_statement, label))


def witness_statement(label: int, group: int) -> str:
    """What a transaction of a group, by its number in the ledger, executes to note itself."""
    return (
        f"insert into {WITNESS_TABLE} (load, grp, client, txn)"
        f" values ({label}, {group}, :client_id, :txn)"
    )


def check_witnesses(spec: Spec) -> None:
    """Raise UsageError for a script whose transactions cannot note themselves; nothing is started
    and nobody connected to."""
    try:
        check_scripts(spec, witnessed(Path("acks")))
    except UsageError as problem:
        why = "a drill has every transaction note itself, its witness, just before its last COMMIT"
        problem.hint = f"{problem.hint}; {why}" if problem.hint else why
        raise


def prepare(
    conn: psycopg.Connection,
    workloads: Mapping[str, Workload] | None = None,
    *,
    unlogged: bool = False,
) -> Witnesses:
    """Make the tables, and note what is in the database. ``conn`` is in autocommit.

    ``workloads`` are those of the load, by group; without them nothing is known of the user's
    tables. With ``unlogged`` the transactions note themselves where they write everything else: in
    a table without WAL. Whatever was made before is made anew. Raises SetupError when the server
    refuses, or when its standbys do not take over what was made.
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
    )
    _wait_for_standbys(conn)
    return witnesses


def renew(conn: psycopg.Connection, witnesses: Witnesses) -> Witnesses:
    """Make a database that came through a crash ready for the next load: faster than preparing.

    What was cold stays as it is and is not looked at again, except that part of it that is to be
    dirty when the load begins.
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


def scripts_choose(workloads: Mapping[str, Workload]) -> bool:
    """Whether a script decides for itself what its commits wait for."""
    return any("synchronous_commit" in _without_comments(text) for text in _texts(workloads))


def read_present(conn: psycopg.Connection, acks: AckLedger) -> NDArray[Any]:
    """The witnesses of the ledger's loads, as :func:`~pgdyno.drill._ledger.judge` takes them.

    Read from the table itself and not through its index, which may be damaged in other ways.
    """
    import numpy as np

    from pgdyno.drill._ledger import PRESENT

    labels = np.array([load.label for load in acks.loads], dtype=np.int64)
    wanted = ", ".join(str(label) for label in labels)
    with conn.transaction():
        conn.execute("set local enable_indexscan = off")
        conn.execute("set local enable_indexonlyscan = off")
        conn.execute("set local enable_bitmapscan = off")
        command = (
            f"copy (select load, grp, client, txn from {WITNESS_TABLE} where load in ({wanted}))"
            " to stdout (delimiter ' ')"
        )
        with conn.cursor().copy(command.encode()) as copy:
            text = b"".join(bytes(block) for block in copy)
    columns = np.fromstring(text.decode(), dtype=np.int64, sep=" ").reshape(-1, len(PRESENT))
    present = np.empty(len(columns), dtype=np.dtype(PRESENT))
    order = np.argsort(labels)
    present["load"] = order[np.searchsorted(labels, columns[:, 0], sorter=order)]
    for number, (name, _) in enumerate(PRESENT[1:], start=1):
        present[name] = columns[:, number]
    return present


def table_state(conn: psycopg.Connection, name: str) -> TableState:
    """Count and hash a table; ``name`` as SQL needs it."""
    rows, digest = conn.execute(query("table_state", table=name)).fetchone() or (0, "")
    return TableState(name, int(rows), str(digest))


def count_rows(conn: psycopg.Connection, name: str) -> int:
    """The number of rows of a table; ``name`` as SQL needs it."""
    row = conn.execute(f"select count(*) from {name}".encode()).fetchone()
    return int(row[0]) if row else 0


def balances(conn: psycopg.Connection, *, all_alike: bool) -> ZeroSum:
    """pgbench's balances now."""
    row = conn.execute(query("balances")).fetchone()
    assert row is not None
    accounts, tellers, branches, history = (int(value) for value in row)
    return ZeroSum(accounts, tellers, branches, history, all_alike)


def last_number(conn: psycopg.Connection) -> int:
    """The highest number that the sequence has handed out, or may have."""
    row = conn.execute(f"select last_value from {SEQUENCE}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def _execute(conn: psycopg.Connection, name: str) -> None:
    """Execute the statements of a file one by one: some of them cannot be in a transaction."""
    import psycopg

    try:
        for statement in statements(name):
            conn.execute(statement)
    except psycopg.Error as error:
        message = error.diag.message_primary or str(error)
        raise SetupError(
            f"cannot make what a drill looks for afterwards: {message}",
            code="witnesses",
            hint=error.diag.message_hint,
        ) from None


def _install_amcheck(conn: psycopg.Connection) -> None:
    """So that nothing has to be installed into a database that came through a crash."""
    found = conn.execute("select from pg_available_extensions where name = 'amcheck'").fetchone()
    if found is not None:
        conn.execute("create extension if not exists amcheck")


def _texts(workloads: Mapping[str, Workload]) -> list[str]:
    return list({script.text for each in workloads.values() for script in each.scripts})


def _untouched(
    conn: psycopg.Connection, texts: Iterable[str] | None
) -> tuple[tuple[TableState, ...], str]:
    if texts is None:
        return (), "the load's scripts are not known"
    bare = [_without_comments(text) for text in texts]
    if any(_DYNAMIC.search(text) for text in bare):
        return (), "a script calls what may change any table"
    hidden = conn.execute(query("hidden_writers")).fetchone()
    if hidden is None or hidden[0]:
        return (), "triggers, rules or functions may change any table"
    states = []
    for name, relation, bytes_ in conn.execute(query("tables")).fetchall():
        if _may_gain_or_lose_rows(relation, bare):
            continue
        if bytes_ <= _HASHED_BYTES_MAX and not any(_names(relation, text) for text in bare):
            states.append(table_state(conn, name))
        else:
            states.append(TableState(name, count_rows(conn, name), None))
    return tuple(states), ""


def _without_comments(text: str) -> str:
    return re.sub(r"--[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL).lower()


def _names(relation: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(relation.lower())}\b", text) is not None


def _may_gain_or_lose_rows(relation: str, texts: Iterable[str]) -> bool:
    verbs = r"(insert\s+into|delete\s+from|merge\s+into|copy|truncate(\s+table)?)"
    target = rf'\b{verbs}\s+(only\s+)?("?\w+"?\s*\.\s*)?"?{re.escape(relation.lower())}\b'
    listed = r"\btruncate\b[^;]*,"
    return any(
        re.search(target, text) or (_names(relation, text) and re.search(listed, text))
        for text in texts
    )


def _zero_sum(conn: psycopg.Connection, texts: Iterable[str] | None) -> tuple[ZeroSum | None, str]:
    from pgdyno._engine import builtin_scripts

    if texts is None:
        return None, "the load's scripts are not known"
    names = {text: name for name, text in builtin_scripts().items()}
    using = [text for text in texts if _PGBENCH_TABLE.search(_without_comments(text))]
    if not any(names.get(text) in ("tpcb-like", "simple-update") for text in using):
        return None, "no script of pgbench's writes its tables"
    if any(text not in names for text in using):
        return None, "another script uses pgbench's tables"
    without_wal = conn.execute(query("balances_unlogged")).fetchone()
    if without_wal is None or without_wal[0]:
        return None, "pgbench's tables are unlogged: a crash empties them"
    all_alike = all(names[text] != "simple-update" for text in using)
    return balances(conn, all_alike=all_alike), ""


def _wait_for_standbys(conn: psycopg.Connection) -> None:
    """What was made has to be on every standby before a fault may take the primary's away."""
    deadline = time.monotonic() + _STANDBYS_SECONDS_MAX
    while True:
        row = conn.execute(query("standbys_behind")).fetchone()
        if row is None or row[0] == 0:
            return
        if time.monotonic() > deadline:
            raise SetupError(
                f"a standby did not catch up within {_STANDBYS_SECONDS_MAX:.0f} s",
                code="standby-behind",
                hint="a smaller delay of the replication connection may help",
            )
        time.sleep(0.05)
