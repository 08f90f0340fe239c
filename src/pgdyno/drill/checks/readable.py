"""Every table can be read completely, including long values."""

from __future__ import annotations

import psycopg

from pgdyno.drill._checking import CheckContext, CheckResult, CheckRule, Stage, is_damage
from pgdyno.drill._queries import query


def _run(context: CheckContext) -> CheckResult:
    tables = context.conn.execute(query("readable")).fetchall()
    for name, source in tables:
        try:
            # The server assembles each row and discards it.
            context.conn.execute(f"copy {source} to '/dev/null'".encode())
        except psycopg.Error as error:
            if not is_damage(error):
                raise
            return False, f"{name}: {error.diag.message_primary or error}"
    return True, f"{len(tables)} tables read"


CHECK = CheckRule("readable", Stage.READING, _run, deep=True)
