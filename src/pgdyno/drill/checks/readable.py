"""Every table can be read from its first row to its last, long values too."""

from __future__ import annotations

import psycopg

from pgdyno.drill._checking import CheckRule, Scene, Seen, Stage, is_damage
from pgdyno.drill._queries import query


def _look(scene: Scene) -> Seen:
    tables = scene.conn.execute(query("readable")).fetchall()
    for name, source in tables:
        try:
            # The server itself throws the rows away, once it has put each together.
            scene.conn.execute(f"copy {source} to '/dev/null'".encode())
        except psycopg.Error as error:
            if not is_damage(error):
                raise
            return False, f"{name}: {error.diag.message_primary or error}"
    return True, f"{len(tables)} tables read"


CHECK = CheckRule("readable", Stage.READING, _look, deep=True)
