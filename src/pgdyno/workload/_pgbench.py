"""pgbench's tables: made as ``pgbench -i`` does, in the same steps, or found as another program
made them, with their scale and notes about them.

Rows of different branches differ only in two numbers, so their text is made once and the numbers
are inserted by byte replacement; most of the time is then spent in the server's COPY.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.errors import SetupError
from pgdyno.server.connecting.marks import UNFINISHED, mark, mark_of
from pgdyno.server.sql_files import query
from pgdyno.workload._found import PGBENCH_COLUMNS, FoundTable, find_pgbench, schema_for_new
from pgdyno.workload.table_locks import owned

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

    from pgdyno.server.connecting.control import Control
    from pgdyno.spec.workload import InitSpec


ACCOUNTS_PER_BRANCH = 100_000
TELLERS_PER_BRANCH = 10
_SCALE_OF_64_BITS = 20_000  # From here on account numbers do not fit an int; pgbench's threshold.
_CHUNKS_PER_BRANCH = 4
# In the order in which pgbench vacuums them.
_VACUUMED = ("pgbench_branches", "pgbench_tellers", "pgbench_accounts", "pgbench_history")
_REMAKE_HINT = "-i drops and makes all four of pgbench's tables there, as pgbench -i does"
OWN_HINT = "rename or drop it yourself, or name another database"
"""The hint for a table that is not one of pgbench and would not be dropped."""
_KEYED = ("pgbench_accounts", "pgbench_branches", "pgbench_tellers")


class Making(Struct, frozen=True):
    """An initialization of pgbench's tables."""

    conn: Control
    """In autocommit mode."""
    scale: int
    init: InitSpec
    progress: Callable[[str, int, int], None]

    def make(self, *, vacuum: bool = True) -> None:
        """Carry out the steps, and mark the tables as made by pgdyno if they are created."""
        carry_out = {
            "d": self._drop,
            "t": self._create,
            "g": self._fill,
            "G": self._fill_on_server,
            "v": self._vacuum,
            "p": self._add_keys,
            "f": self._add_foreign_keys,
        }
        rest = steps = "".join(step for step in self.init.all_steps if vacuum or step != "v")
        if steps.startswith("dt"):
            # In one transaction, so that existing tables are kept if the new ones are refused.
            with self.conn.transaction():
                self._drop()
                self._create()
            rest = steps.removeprefix("dt")
        for step in rest:
            carry_out[step]()
        if "t" in steps:
            with self.conn.transaction():
                self._mark(mark_of(self.scale, self.init))

    def _drop(self) -> None:
        from psycopg import sql

        if found := [table.identifier for table in find_pgbench(self.conn).values()]:
            listed = sql.SQL(", ").join(found)
            self.conn.execute(sql.SQL("drop table {}").format(listed))

    def _schemas(self) -> dict[str, str]:
        """Return the schema of each table: that of the one that exists, if none is created here."""
        found = {} if "t" in self.init.all_steps else find_pgbench(self.conn)
        new = schema_for_new(self.conn) if PGBENCH_COLUMNS.keys() - found else ""
        return {name: found[name].schema if name in found else new for name in PGBENCH_COLUMNS}

    def _tables(self) -> dict[str, sql.Identifier]:
        """Return the name of each table in SQL."""
        from psycopg import sql

        return {name: sql.Identifier(schema, name) for name, schema in self._schemas().items()}

    def _mark(self, text: str) -> None:
        names = [(schema, name) for name, schema in self._schemas().items()]
        mark(self.conn, "table", names, text)

    def _create(self) -> None:
        with self.conn.transaction():
            self._run("pgbench_tables")
            for number in range(1, self.init.partitions + 1):
                self.conn.execute(self._partition(number))
            self._mark(UNFINISHED)

    def _partition(self, number: int) -> sql.Composed:
        """Return the statement that creates a partition of the accounts, with pgbench's bounds."""
        from psycopg import sql

        count = self.init.partitions
        unlogged = "unlogged" if self.init.unlogged_tables else ""
        bounds = f"with (modulus {count}, remainder {number - 1})"
        if self.init.partition_method != "hash":
            size = -(-self.scale * ACCOUNTS_PER_BRANCH // count)
            first = "minvalue" if number == 1 else str((number - 1) * size + 1)
            beyond = "maxvalue" if number == count else str(number * size + 1)
            bounds = f"from ({first}) to ({beyond})"
        options = f"for values {bounds} with (fillfactor = {self.init.fillfactor})"
        part = sql.Identifier(schema_for_new(self.conn), f"pgbench_accounts_{number}")
        return sql.SQL("create {} table {} partition of {} {}").format(
            sql.SQL(unlogged), part, self._tables()["pgbench_accounts"], sql.SQL(options)
        )

    def _run(self, name: str) -> None:
        """Execute ``sql/NAME.sql`` with its placeholders replaced."""
        from psycopg import sql

        init = self.init
        # With partitions only these are unlogged, as in pgbench 18: PostgreSQL 18 does not accept
        # unlogged partitioned tables.
        unlogged = sql.SQL("unlogged" if init.unlogged_tables and not init.partitions else "")
        fillfactor = sql.SQL(str(init.fillfactor))
        kind: sql.Composable = sql.SQL("with (fillfactor = {})").format(fillfactor)
        if init.partitions:
            kind = sql.SQL(f"partition by {init.partition_method or 'range'} (aid)")
        placeholders: dict[str, sql.Composable] = {
            "aid": sql.SQL("bigint" if self.scale >= _SCALE_OF_64_BITS else "int"),
            "unlogged": unlogged,
            "fillfactor": fillfactor,
            "accounts_kind": kind,
            "tablespace": _in_tablespace("tablespace {}", init.tablespace),
            "index_tablespace": _in_tablespace("using index tablespace {}", init.index_tablespace),
            "branches": sql.SQL(str(self.scale)),
            "tellers": sql.SQL(str(self.scale * TELLERS_PER_BRANCH)),
            "accounts": sql.SQL(str(self.scale * ACCOUNTS_PER_BRANCH)),
            **self._tables(),
        }
        self.conn.execute(sql.SQL(query("workload", name).decode()).format(**placeholders))

    def _fill(self) -> None:
        # Truncated in the same transaction, so that COPY can freeze rows, which saves a vacuum.
        with self._emptied():
            self._copy("pgbench_branches", "(bid, bbalance)", _branch_rows(self.scale))
            self._copy("pgbench_tellers", "(tid, bid, tbalance)", _teller_rows(self.scale))
            self._copy("pgbench_accounts", "", self._reported(_account_rows(self.scale)))

    @contextmanager
    def _emptied(self) -> Iterator[None]:
        """Within the block, a transaction, fill tables that are empty. Raises SetupError if they
        are another role's."""
        from psycopg import sql

        tables = [*self._tables().values()]
        with owned(self.conn, tables):
            self.conn.execute(sql.SQL("truncate {}").format(sql.SQL(", ").join(tables)))
            yield

    def _copy(self, table: str, columns: str, rows: Iterator[bytes]) -> None:
        from psycopg import sql

        # COPY FREEZE is not possible on a partitioned table.
        frozen = table != "pgbench_accounts" or not self.init.partitions
        options = f"{columns} from stdin {'with (freeze)' if frozen else ''}"
        command = sql.SQL("copy {} {}").format(self._tables()[table], sql.SQL(options))
        with self.conn.cursor().copy(command) as copy:
            for piece in rows:
                copy.write(piece)

    def _reported(self, pieces: Iterator[tuple[bytes, int]]) -> Iterator[bytes]:
        done, total = 0, self.scale * ACCOUNTS_PER_BRANCH
        for rows, count in pieces:
            self.progress("pgbench_accounts", done, total)
            yield rows
            done += count
        self.progress("pgbench_accounts", total, total)

    def _fill_on_server(self) -> None:
        self.progress("pgbench_accounts, by the server", 0, 1)
        with self._emptied():
            self._run("pgbench_server_rows")
        self.progress("pgbench_accounts, by the server", 1, 1)

    def _vacuum(self) -> None:
        from psycopg import sql

        tables = self._tables()
        for done, table in enumerate(_VACUUMED):
            self.progress("vacuum", done, len(_VACUUMED))
            self.conn.execute(sql.SQL("vacuum analyze {}").format(tables[table]))
        self.progress("vacuum", len(_VACUUMED), len(_VACUUMED))

    def _add_keys(self) -> None:
        self.progress("primary keys", 0, 1)
        self._run("pgbench_keys")
        self.progress("primary keys", 1, 1)

    def _add_foreign_keys(self) -> None:
        self.progress("foreign keys", 0, 1)
        self._run("pgbench_foreign_keys")
        self.progress("foreign keys", 1, 1)


def _in_tablespace(clause: str, name: str | None) -> sql.Composable:
    from psycopg import sql

    return sql.SQL("") if name is None else sql.SQL(clause).format(sql.Identifier(name))


def _branch_rows(scale: int) -> Iterator[bytes]:
    yield b"".join(b"%d\t0\n" % bid for bid in range(1, scale + 1))


def _teller_rows(scale: int) -> Iterator[bytes]:
    for branch in range(scale):
        first = branch * TELLERS_PER_BRANCH + 1
        tellers = range(first, first + TELLERS_PER_BRANCH)
        yield b"".join(b"%d\t%d\t0\n" % (tid, branch + 1) for tid in tellers)


def _account_rows(scale: int) -> Iterator[tuple[bytes, int]]:
    """Yield the COPY text of all accounts in order, in pieces with their numbers of rows.

    Account ``branch * 100000 + k`` is written as the branch followed by k in five digits (leading
    zeros are harmless), except for the last of a branch, k = 100000, which carries over.
    """
    size = ACCOUNTS_PER_BRANCH // _CHUNKS_PER_BRANCH
    templates = [
        b"<%05d\t>\t0\t\n" * size % tuple(range(start + 1, start + size + 1))
        for start in range(0, ACCOUNTS_PER_BRANCH, size)
    ]
    templates[-1] = templates[-1].replace(b"<100000\t", b">00000\t")
    for branch in range(scale):
        for template in templates:
            rows = template.replace(b"<", b"%d" % branch).replace(b">", b"%d" % (branch + 1))
            yield rows, size


def scale_of(conn: psycopg.Connection, found: Mapping[str, FoundTable], asked: int | None) -> int:
    """Return the scale of the tables, determined as pgbench does; ``asked`` where the branches are
    no table.

    Raises SetupError if they cannot be used.
    """
    database = conn.info.dbname
    if any(table.comment == UNFINISHED for table in found.values()):
        raise SetupError(
            f"pgbench's tables in the database {database} are incomplete: pgdyno was stopped while"
            " it made them",
            code="tables-incomplete",
            hint=_REMAKE_HINT,
        )
    if missing := sorted(set(PGBENCH_COLUMNS) - set(found)):
        raise SetupError(
            f"the database {database} has {', '.join(sorted(found))}, but not {', '.join(missing)}",
            code="tables-incomplete",
            hint=_REMAKE_HINT if all(table.is_pgbench for table in found.values()) else OWN_HINT,
        )
    branches = found["pgbench_branches"]
    if branches.other_kind is not None:
        if asked is not None:
            return asked
        raise SetupError(
            f"{branches.schema}.{branches.name} in the database {database} is"
            f" {branches.other_kind}, so the scale is not known",
            code="tables-incomplete",
            hint="name the scale with -s; pgdyno does not read it itself, as functions of its owner"
            " would run",
        )
    row = _counted(conn, found, "pgbench_scale")
    if row[0] == 0:
        raise SetupError(
            f"pgbench_branches in the database {database} is empty, so the scale is not known",
            code="tables-incomplete",
            hint=_REMAKE_HINT,
        )
    return row[0]


def notes_about(
    conn: psycopg.Connection, found: Mapping[str, FoundTable], scale: int, asked: int | None
) -> Iterator[str]:
    """Yield notes for the user about the tables; ``scale`` is theirs, ``asked`` was requested."""
    database = conn.info.dbname
    if asked is not None and asked != scale:
        yield (
            f"the tables in the database {database} have scale {scale}, which is used;"
            f" -s {asked} is ignored"
        )
    for table in found.values():
        if table.other_kind is not None:
            yield f"{table.schema}.{table.name} is {table.other_kind}, and is used as it is"
    unkeyed = [name for name in _KEYED if found[name].kind in ("r", "p") and not found[name].keyed]
    if unkeyed:
        yield f"no primary key: {', '.join(unkeyed)}; statements read the whole table"
    elif all(found[name].other_kind is None for name in _KEYED):
        yield from _rows_missing(conn, found, scale)


def _counted(
    conn: psycopg.Connection, found: Mapping[str, FoundTable], name: str
) -> tuple[int, ...]:
    """Return the row of ``sql/NAME.sql`` on the tables."""
    from psycopg import sql

    names = {name: table.identifier for name, table in found.items()}
    row = conn.execute(sql.SQL(query("workload", name).decode()).format(**names)).fetchone()
    assert row is not None
    return row


def _rows_missing(
    conn: psycopg.Connection, found: Mapping[str, FoundTable], scale: int
) -> Iterator[str]:
    row = _counted(conn, found, "pgbench_highest")
    expected = (scale * ACCOUNTS_PER_BRANCH, scale * TELLERS_PER_BRANCH)
    for what, there, due in zip(
        ("pgbench_accounts", "pgbench_tellers"), row, expected, strict=True
    ):
        if there != due:
            yield f"{what} ends at {there:,}, not {due:,} as at scale {scale}: rows are missing"
