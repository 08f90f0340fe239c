"""The table ``load.log`` of a spec: the transaction log of pgbench."""

from __future__ import annotations

from pydantic import Field, model_validator

from pgdyno.spec._base import Key, Misfit, Part, PositiveDuration


class LogSpec(Part):
    """The transaction log of pgbench, in the format of version 18."""

    prefix: str = Field("pgbench_log", min_length=1, description="Files are PREFIX.PID[.THREAD]")
    sampling_rate: float | None = Field(
        None, gt=0, le=1, description="Share of the transactions that are logged"
    )
    aggregate_interval_ms: PositiveDuration | None = Field(
        None,
        alias="aggregate_interval",
        description="Interval that one line summarizes, in whole seconds",
    )
    failures_detailed: bool = Field(
        False, description="Distinguish serialization failures and deadlocks"
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> LogSpec:
        if self.sampling_rate is not None and self.aggregate_interval_ms is not None:
            raise Misfit(
                Key("sampling_rate"), " and ", Key("aggregate_interval"), " cannot be used together"
            )
        if (self.aggregate_interval_ms or 0) % 1000:
            raise Misfit(Key("aggregate_interval"), " must be whole seconds")
        return self
