"""The tables of entity-resolution are checked once the load has ended."""

from __future__ import annotations

from pgdyno.conduct._session import Session
from pgdyno.workload import Tables, consistency


def check_tables(session: Session) -> None:
    """Check the tables of the load, if there is a check of them, and record what was found."""
    if not any(each.tables is Tables.ENTITIES for each in session.workloads.values()):
        return
    session.watcher.phase("checking the tables")
    with session.connect() as connection:
        found = consistency(connection)
    detail = {
        "records": found.records,
        "unfinished": found.unfinished,
        "entities": found.entities,
        "broken": dict(found.broken),
    }
    session.recorder.add_event("consistency", "tables of entity-resolution", detail)
