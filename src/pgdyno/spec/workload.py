"""The table ``workload`` of a spec: the scripts of the clients, and how their tables are made.

A script mix is a built-in workload by its name, or scripts and requests with weights. Options for
making pgbench's tables are named as in ``pgbench -i``; other workloads use some. The workload
``ingest`` has ways by which it brings rows in, and a size of its commits.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from pgdyno.spec._base import Misfit, SettingValue, SpecKey, SpecTable
from pgdyno.spec.index_text import checked

BUILTIN_SCRIPTS = (
    *("tpcb-like", "simple-update", "select-only", "mixed", "business", "entity-resolution"),
    *("ingest", "tpcc-like", "tpcc-functions"),
)
"""Built-in workloads. ``mixed``, ``tpcc-like`` and ``tpcc-functions`` are themselves mixes, and
``ingest`` depends on keys of the spec: they cannot be part of another mix."""
MIXABLE_SCRIPTS = (
    *("tpcb-like", "simple-update", "select-only", "business", "business-browse"),
    *("business-payment", "business-stream", "business-desk", "entity-resolution"),
    *("tpcc-new-order", "tpcc-payment", "tpcc-order-status", "tpcc-delivery", "tpcc-stock-level"),
)
DEFAULT_SCRIPT = "tpcb-like"
SCALE_DEFAULT_MAX = 100
"""The largest default (1.6 GB), so that making the tables does not take long unless requested."""
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
TRANSACTION_ROWS = 100
"""Rows of each transaction of the script, in one commit or several."""
Way = Literal["single", "multirow", "pipeline", "copy"]
_DEFAULTS: dict[Way, int] = {
    "single": 1,
    "multirow": TRANSACTION_ROWS,
    "pipeline": TRANSACTION_ROWS,
    "copy": TRANSACTION_ROWS,
}


class ScriptPart(SpecTable):
    """A script of a mix: a file or a built-in one, and its weight."""

    file: str | None = None
    text: str | None = Field(
        None, description="Content of file, which is then not read (set in run files)"
    )
    builtin: str | None = Field(None, description=f"One of {', '.join(MIXABLE_SCRIPTS)}")
    request: str | None = Field(
        None,
        pattern=r"^/[!-~]*$",
        description="With the table http: a path that is requested, redirects followed",
    )
    weight: int = Field(1, ge=0, le=1_000_000)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(source is not None for source in (self.file, self.builtin, self.request)) != 1:
            raise ValueError("a script needs one of file, builtin and request")
        if self.text is not None and self.file is None:
            raise ValueError("text can only be used with file")
        if self.builtin is not None and self.builtin not in MIXABLE_SCRIPTS:
            raise ValueError(f'"{self.builtin}" is not one of {", ".join(MIXABLE_SCRIPTS)}')
        return self


def _known(script: str) -> str:
    if script not in BUILTIN_SCRIPTS:
        raise ValueError(
            f'"{script}" is not one of {", ".join(BUILTIN_SCRIPTS)}'
            ' (for a file, write [{ file = "…", weight = 1 }])'
        )
    return script


def _with_weight(parts: list[ScriptPart]) -> list[ScriptPart]:
    if sum(part.weight for part in parts) == 0:
        raise ValueError("at least one script needs a weight above 0")
    return parts


def _kind(value: Any) -> str:
    return "script[parts]" if isinstance(value, list | tuple) else "script[name]"


ScriptMix = Annotated[
    Annotated[str, AfterValidator(_known), Tag("script[name]")]
    | Annotated[list[ScriptPart], AfterValidator(_with_weight), Tag("script[parts]")],
    Discriminator(_kind),
]
"""The scripts that clients execute."""


def runs_builtin(mix: str | list[ScriptPart], builtin: str) -> bool:
    """Return whether a mix is this built-in workload, or has it as a part."""
    if isinstance(mix, str):
        return mix == builtin
    return any(part.builtin == builtin for part in mix)


def _text_or_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a variable must be a string or a number")
    return value


Variable = Annotated[str | int | float, BeforeValidator(_text_or_number)]


class InitSpec(SpecTable):
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
    def _method_of_partitions(self) -> Self:
        if self.partition_method is not None and not self.partitions:
            raise Misfit(
                SpecKey("partition_method"),
                " can only be used with ",
                SpecKey("partitions"),
                " above 0",
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


def batch_of(way: Way, batch: int | None) -> int:
    """Return the rows of a commit: ``batch``, or the default of the way."""
    return _DEFAULTS[way] if batch is None else batch


def check_batch(batch: int | None) -> int | None:
    """Return ``batch``. Raises ValueError if the rows of a transaction are not whole batches."""
    if batch is not None and TRANSACTION_ROWS % batch:
        divisors = [n for n in range(1, TRANSACTION_ROWS + 1) if TRANSACTION_ROWS % n == 0]
        listed = ", ".join(map(str, divisors))
        raise ValueError(f"{batch} does not divide {TRANSACTION_ROWS} rows; these do: {listed}")
    return batch


class WorkloadSpec(SpecTable):
    """The scripts of the clients, and their tables."""

    script: ScriptMix = Field(
        DEFAULT_SCRIPT,
        description=f"One of {', '.join(BUILTIN_SCRIPTS)}, or scripts with weights",
    )
    scale: int = Field(
        1,
        ge=1,
        le=100_000,
        description="Scale factor of pgbench, 100,000 accounts each (default: the number of"
        f" clients, at most {SCALE_DEFAULT_MAX})",
    )
    setup: str | None = Field(
        None,
        description="SQL file, where COPY may have \\rows, or dump by pg_dump, executed once before"
        " the load, in the database pgdyno, or with initialize in the database that conninfo names",
    )
    initialize: bool = Field(
        False,
        description="For kind = existing: drop pgbench's four tables in the database that conninfo"
        " names, and make them again",
    )
    init: InitSpec = Field(
        default_factory=InitSpec.default, description="Options for making pgbench's tables"
    )
    vacuum: Literal["own", "none", "all"] = Field(
        "own",
        description="Tables vacuumed before the load: made by pgdyno, none, or all of pgbench's",
    )
    setup_text: str | None = Field(
        None, description="Content of setup, which is then not read (set in run files)"
    )
    setup_sha256: str | None = Field(
        None,
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 that setup must have (set in run files, which have no rows of a dump)",
    )
    variables: dict[str, Variable] = Field(default_factory=dict)
    unlogged: bool = Field(
        False, description="For kind = embedded: unlogged tables, which are empty after a crash"
    )
    table_options: dict[str, dict[str, SettingValue]] = Field(
        default_factory=dict,
        description="For kind = embedded: storage parameters by table, set after the tables are"
        " made, such as { pgbench_accounts = { fillfactor = 90 } }",
    )
    indexes: dict[str, str] = Field(
        default_factory=dict,
        description="For kind = embedded: indexes by table, separated by semicolons, created after"
        " the tables are made: columns, or a method with keys, such as { orders ="
        ' "customer, placed; state", notes = "using gin (body)" }',
    )
    ingest: Way = Field(
        "single",
        description="Way by which the workload ingest brings rows in: single inserts, multirow"
        " inserts, a pipeline of inserts, or copy",
    )
    batch: int | None = Field(
        None,
        ge=1,
        le=TRANSACTION_ROWS,
        description="Rows that the workload ingest commits at a time, a divisor of"
        f" {TRANSACTION_ROWS} (default: 1 with single, otherwise {TRANSACTION_ROWS})",
    )
    update_last: str | None = Field(
        None,
        min_length=1,
        description="Table whose update is moved to just before COMMIT, in each script where its"
        " text permits that: a trial of what the application could do",
    )

    superuser: bool = Field(
        True,
        description="For kind = embedded: setup and clients log in as superuser; false: as a role"
        " that owns the database and has no other rights",
    )
    refused: Literal["stop", "fail"] = Field(
        "stop",
        description="If the server refuses a statement of the scripts: stop before the load, or"
        " fail: the transactions with it fail, and a note names it",
    )

    @field_validator("batch")
    @classmethod
    def _whole_batches(cls, batch: int | None) -> int | None:
        return check_batch(batch)

    @field_validator("indexes")
    @classmethod
    def _texts_of_indexes(cls, indexes: dict[str, str]) -> dict[str, str]:
        return {table: checked(text) for table, text in indexes.items()}

    @model_validator(mode="after")
    def _text_of_a_file(self) -> Self:
        for name in ("setup_text", "setup_sha256"):
            if getattr(self, name) is not None and self.setup is None:
                raise ValueError(f"{name} can only be used with setup")
        return self

    @property
    def scale_given(self) -> bool:
        """True if the scale was given and is not the default."""
        return "scale" in self.model_fields_set
