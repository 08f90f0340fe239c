"""The plans of the load's statements, and what was tried and asked beside it, of a run file."""

from __future__ import annotations

from collections.abc import Collection

from pgdyno.record._database import RunDatabase, in_slices
from pgdyno.record._statement_rows import (
    CalledFunction,
    CountedStatement,
    FunctionStatement,
    PlanOverTime,
    StatementPlan,
    StatementTrial,
    SupposedIndex,
    Suspect,
    TablePartition,
    TableStatistics,
    TableTrigger,
    UnusableIndex,
    UnusualSetting,
)


class PlanReader:
    """The part of a run file's reader for looks at plans."""

    _db: RunDatabase

    def statement_plans(self, slice_ids: Collection[int] | None = None) -> list[StatementPlan]:
        """Return the plans that were looked at."""
        return self._db.all(
            StatementPlan,
            "select client_group, script, position, is_generic, is_analyzed, plan, lack"
            f" from statement_plan {in_slices(slice_ids)} order by rowid",
        )

    def plans_over_time(self, slice_ids: Collection[int] | None = None) -> list[PlanOverTime]:
        """Return the forms that plans had when the load began and when it had ended."""
        return self._db.all(
            PlanOverTime,
            "select client_group, script, position, first, last, is_changed"
            f" from plan_over_time {in_slices(slice_ids)} order by rowid",
        )

    def statement_trials(self, slice_ids: Collection[int] | None = None) -> list[StatementTrial]:
        """Return the times of statements with and without changes."""
        return self._db.all(
            StatementTrial,
            "select change, client_group, script, position, runs, ms, changed_ms, log_error,"
            f" is_replanned from statement_trial {in_slices(slice_ids)} order by rowid",
        )

    def supposed_indexes(self, slice_ids: Collection[int] | None = None) -> list[SupposedIndex]:
        """Return the costs of statements with indexes that are not there."""
        return self._db.all(
            SupposedIndex,
            "select client_group, script, position, change, cost, supposed_cost"
            f" from supposed_index {in_slices(slice_ids)} order by rowid",
        )

    def counted_statements(
        self, slice_ids: Collection[int] | None = None
    ) -> list[CountedStatement]:
        """Return the times of statements whose functions were counted."""
        return self._db.all(
            CountedStatement,
            "select client_group, script, position, ms"
            f" from counted_statement {in_slices(slice_ids)} order by rowid",
        )

    def called_functions(self, slice_ids: Collection[int] | None = None) -> list[CalledFunction]:
        """Return the functions that statements call."""
        return self._db.all(
            CalledFunction,
            "select client_group, script, position, function, is_trigger, calls, ms, self_ms,"
            f" own_ms from called_function {in_slices(slice_ids)} order by rowid",
        )

    def function_statements(
        self, slice_ids: Collection[int] | None = None
    ) -> list[FunctionStatement]:
        """Return the statements that functions execute."""
        return self._db.all(
            FunctionStatement,
            "select client_group, script, position, statement, executions, ms"
            f" from function_statement {in_slices(slice_ids)} order by rowid",
        )

    def table_triggers(self, slice_ids: Collection[int] | None = None) -> list[TableTrigger]:
        """Return the triggers of tables that statements write, those of constraints apart."""
        return self._db.all(
            TableTrigger,
            "select relation, trigger_name, function"
            f" from table_trigger {in_slices(slice_ids)} order by rowid",
        )

    def unusable_indexes(self, slice_ids: Collection[int] | None = None) -> list[UnusableIndex]:
        """Return the indexes that plans of statements cannot use."""
        return self._db.all(
            UnusableIndex,
            "select client_group, script, position, relation, index_name, compared, reason,"
            " detail, make"
            f" from unusable_index {in_slices(slice_ids)} order by rowid",
        )

    def suspects(self, slice_ids: Collection[int] | None = None) -> list[Suspect]:
        """Return the tables and indexes that may cost more than they need."""
        return self._db.all(
            Suspect,
            "select relation, index_name, size_bytes, suspicion, make"
            f" from suspect {in_slices(slice_ids)} order by rowid",
        )

    def table_partitions(self, slice_ids: Collection[int] | None = None) -> list[TablePartition]:
        """Return the partitions that plans of statements read."""
        return self._db.all(
            TablePartition,
            "select relation, root, key, partitions"
            f" from table_partition {in_slices(slice_ids)} order by rowid",
        )

    def table_statistics(self, slice_ids: Collection[int] | None = None) -> list[TableStatistics]:
        """Return the planner's statistics of tables that plans of statements read."""
        return self._db.all(
            TableStatistics,
            "select relation, has_statistics, repairs"
            f" from table_statistics {in_slices(slice_ids)} order by rowid",
        )

    def unusual_settings(self, slice_ids: Collection[int] | None = None) -> list[UnusualSetting]:
        """Return the settings of the load's sessions that are not at their built-in values."""
        return self._db.all(
            UnusualSetting,
            "select name, value, reset, may_set, source, needs_restart, relied_on"
            f" from unusual_setting {in_slices(slice_ids)} order by name",
        )
