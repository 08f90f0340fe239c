"""The planner's statistics of the tables that the load's statements read, and the time of the
statements with better ones."""

from __future__ import annotations

from pgdyno.facts.plans import TimedChange, trials_of_sql
from pgdyno.facts.situation import Situation
from pgdyno.record import TableStatistics
from pgdyno.spec.sql_text import relation


def timed_statistics(s: Situation) -> list[tuple[TimedChange, TableStatistics]]:
    """Return the trials of better statistics, each of one table, those that save most first."""
    known = s.run.table_statistics(s.slice_ids)
    return trials_of_sql(s, {statements_for(each): each for each in known})


def statements_for(statistics: TableStatistics) -> tuple[str, ...]:
    """Return the statements with which a table gets better statistics."""
    return (*statistics.statements, f"analyze {relation(statistics.relation)}")
