"""Options for making pgbench's tables, named as in ``pgbench -i``. Other workloads use some."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from pgdyno.spec._base import Key, Misfit, Part

INIT_STEPS = {
    "d": "drop pgbench's four tables",
    "t": "create them",
    "g": "fill them with rows made by pgdyno",
    "G": "fill them with rows made by the server",
    "v": "vacuum and analyze them",
    "p": "add primary keys",
    "f": "add foreign keys",
}
STEPS_DEFAULT = "dtgvp"


class InitSpec(Part):
    """Steps of an initialization and properties of the tables."""

    steps: str = Field(
        STEPS_DEFAULT,
        description="Steps, carried out in the order given: "
        + ", ".join(f"{step} ({what})" for step, what in INIT_STEPS.items()),
    )
    fillfactor: int = Field(100, ge=10, le=100, description="Fillfactor of the tables, in percent")
    partitions: int = Field(
        0,
        ge=0,
        le=100_000,
        description="Number of partitions of pgbench_accounts, or of each large table of"
        " entity-resolution; 0: none",
    )
    partition_method: Literal["range", "hash"] | None = Field(
        None, description="Partitioning method (default: range); needs partitions"
    )
    foreign_keys: bool = Field(False, description="Add foreign keys (the step f)")
    unlogged_tables: bool = Field(False, description="Make unlogged tables")
    tablespace: str | None = Field(None, min_length=1, description="Tablespace of the tables")
    index_tablespace: str | None = Field(
        None, min_length=1, description="Tablespace of the primary keys"
    )

    @field_validator("steps")
    @classmethod
    def _known_steps(cls, steps: str) -> str:
        steps = steps.replace(" ", "")
        if unknown := next((step for step in steps if step not in INIT_STEPS), None):
            listed = ", ".join(f"{step} ({what})" for step, what in INIT_STEPS.items())
            raise ValueError(f'"{unknown}" is not an initialization step; steps are {listed}')
        if not steps:
            raise ValueError("an initialization needs at least one step")
        return steps

    @model_validator(mode="after")
    def _method_of_partitions(self) -> InitSpec:
        if self.partition_method is not None and not self.partitions:
            raise Misfit(
                Key("partition_method"), " can only be used with ", Key("partitions"), " above 0"
            )
        return self

    @property
    def all_steps(self) -> str:
        """The steps, including f if ``foreign_keys`` is set."""
        return self.steps + ("f" if self.foreign_keys and "f" not in self.steps else "")

    def in_words(self) -> str:
        """Describe the properties that differ from pgbench's defaults; '' if none do."""
        method = self.partition_method or "range"
        differing = {
            f"fillfactor {self.fillfactor}": self.fillfactor != 100,
            f"{self.partitions} {method} partitions": self.partitions,
            "foreign keys": "f" in self.all_steps,
            "no primary keys": "p" not in self.steps,
            "unlogged": self.unlogged_tables,
            f"tablespace {self.tablespace}": self.tablespace,
            f"index tablespace {self.index_tablespace}": self.index_tablespace,
        }
        return ", ".join(words for words, true in differing.items() if true)
