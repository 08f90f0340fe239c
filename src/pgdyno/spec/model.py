"""The spec: server, workload, clients and load. Every key has a default.

Durations are written with PostgreSQL's units (``"10s"``); the key in the file has no unit in its
name, the attribute has (``ramp`` in the file is ``ramp_ms`` here).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from pgdyno.spec import failures
from pgdyno.spec._base import (
    CLIENTS_MAX,
    Duration,
    Key,
    Misfit,
    Part,
    PositiveDuration,
    SettingValue,
    Share,
)
from pgdyno.spec._budgets import InvestigateSpec, PriceSpec
from pgdyno.spec._clients import TRANSACTIONS_MAX, ClientGroup
from pgdyno.spec._server import ServerSpec
from pgdyno.spec.address import parse_address
from pgdyno.spec.branches import Branch, BranchingSpec, check_branches
from pgdyno.spec.columns import columns_of, columns_text
from pgdyno.spec.disk import DISK_EXAMPLES, DataDisk, DiskPlan, WalDisk, disk_plan, wal_plan
from pgdyno.spec.failures import FailuresLimit
from pgdyno.spec.front import FrontSpec
from pgdyno.spec.govern import GovernSpec, check_governed
from pgdyno.spec.http import HttpSpec, check_http, with_defaults
from pgdyno.spec.ingest import TRANSACTION_ROWS, Way, check_batch
from pgdyno.spec.kernel import KernelSpec
from pgdyno.spec.log import LogSpec
from pgdyno.spec.mix import BUILTIN_SCRIPTS, DEFAULT_SCRIPT, ScriptMix, ScriptPart, runs_builtin
from pgdyno.spec.pooler import PoolerSpec
from pgdyno.spec.standby import MODE_SETTINGS, StandbySpec
from pgdyno.spec.story import Chapter
from pgdyno.spec.tables import InitSpec
from pgdyno.spec.units import format_duration, format_size

MAX_OTHER_PROGRAMS = 0.2
"""Share of the cores of programs beside the load, above which a measurement is not trusted."""
CPUS_MAX = 4096
MATTERS_MIN, MATTERS_MAX = 0.001, 0.5
"""Bounds of the smallest effect that matters."""
DATA_BYTES_MIN = 128 << 20
"""An empty data directory with its first WAL segments has about 60 MB."""
SEED_MAX = (1 << 64) - 1


def _text_or_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a variable must be a string or a number")
    return value


Variable = Annotated[str | int | float, BeforeValidator(_text_or_number)]


class DiskSpec(Part):
    """Disks for the data and the WAL of an embedded server."""

    data: DataDisk = Field("plain", description=f"Disk of the data: {', '.join(DISK_EXAMPLES)}")
    wal: WalDisk = Field("data", description="Disk of the WAL; data: the same as the data")

    @model_validator(mode="after")
    def _data_fit(self) -> DiskSpec:
        size = self.data_plan.size_bytes
        if size is not None and size < DATA_BYTES_MIN:
            raise ValueError(f"data: a data directory needs at least {format_size(DATA_BYTES_MIN)}")
        return self

    @property
    def data_plan(self) -> DiskPlan:
        """The disk of the data."""
        return disk_plan(self.data)

    @property
    def wal_plan(self) -> DiskPlan | None:
        """The disk of the WAL; ``None``: that of the data."""
        return wal_plan(self.wal)


SCALE_DEFAULT_MAX = 100
"""The largest default (1.6 GB), so that making the tables does not take long unless requested."""


class WorkloadSpec(Part):
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
        description="SQL file, or dump by pg_dump, executed once before the load, in the database"
        " pgdyno, or with initialize in the database that conninfo names",
    )
    initialize: bool = Field(
        False,
        description="For kind = existing: drop pgbench's four tables in the database that conninfo"
        " names, and make them again",
    )
    init: InitSpec = Field(
        default_factory=InitSpec, description="Options for making pgbench's tables"
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
        description="For kind = embedded: an index by table, created after the tables are made,"
        ' such as { orders = "customer, placed" }',
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

    @field_validator("batch")
    @classmethod
    def _whole_batches(cls, batch: int | None) -> int | None:
        return check_batch(batch)

    @field_validator("indexes")
    @classmethod
    def _columns_of_indexes(cls, indexes: dict[str, str]) -> dict[str, str]:
        return {table: columns_text(columns_of(text)) for table, text in indexes.items()}

    @model_validator(mode="after")
    def _text_of_a_file(self) -> WorkloadSpec:
        for name in ("setup_text", "setup_sha256"):
            if getattr(self, name) is not None and self.setup is None:
                raise ValueError(f"{name} can only be used with setup")
        return self

    @property
    def scale_given(self) -> bool:
        """True if the scale was given and is not the default."""
        return "scale" in self.model_fields_set


class LoadStep(Part):
    """A step of a profile: from ``at`` on, every group runs ``share`` of its clients."""

    at_ms: Duration = Field(alias="at")
    share: float = Field(gt=0, le=1)


class LoadSpec(Part):
    """Duration and ramp of the load, and options of the load engine."""

    ramp_ms: Duration = Field(
        0, alias="ramp", description="Linear increase of clients, or of rates, from 0 at the start"
    )
    hold_ms: Duration = Field(
        30_000, alias="hold", description="Duration of the load after the ramp"
    )
    steps: list[LoadStep] = Field(
        default_factory=list, description="Shares of the clients over time, instead of a ramp"
    )
    transactions: int | None = Field(
        None,
        ge=1,
        le=TRANSACTIONS_MAX,
        description="Number of transactions per client; hold is then the maximum duration",
    )
    threads: int = Field(1, ge=1, le=1024, description="Threads of the load engine")
    reactor: Literal["auto", "mio", "io_uring"] = Field(
        "auto", description="Event loop of the load engine; auto: io_uring if the kernel permits it"
    )
    cpus: list[int] | None = Field(
        None, min_length=1, max_length=CPUS_MAX, description="CPUs for the load engine's threads"
    )
    nice: int | None = Field(
        None, ge=-20, le=19, description="Nice value of the load engine's threads"
    )
    connecting_max: int = Field(
        100,
        ge=1,
        le=CLIENTS_MAX,
        description="Maximum number of connections that are established at the same time",
    )
    backoff_min_ms: PositiveDuration = Field(
        50, alias="backoff_min", description="Pause of a client after its first failure to connect"
    )
    backoff_max_ms: PositiveDuration = Field(
        2_000,
        alias="backoff_max",
        description="Longest pause after failures to connect in a row, each twice the one before",
    )
    protocol: Literal["simple", "extended", "prepared"] = "prepared"
    parameters: Literal["text", "binary"] = Field(
        "text", description="Format of parameters with protocol extended or prepared"
    )
    max_tries: int = Field(
        10, ge=0, le=1_000_000, description="Maximum number of tries of a transaction; 0: no limit"
    )
    max_failures: FailuresLimit = Field(
        failures.DEFAULT,
        description="Failed transactions above which a measurement is not trusted: a share or a"
        " number",
    )
    exit_on_abort: bool = Field(
        False,
        description="End the run at the first transaction that fails without retry, or the first"
        " lost connection",
    )
    seed: int | None = Field(None, ge=0, le=SEED_MAX)
    acks: str | None = Field(
        None, min_length=1, description="Directory for the ack ledger of the clients' commits"
    )
    log: LogSpec | None = Field(None, description="For pgdyno run: transaction log of pgbench")
    verbose_errors: bool = Field(
        False, description="Print every error during the load, not only the first of each kind"
    )
    max_other_programs: Share = Field(
        MAX_OTHER_PROGRAMS,
        description="Share of the server's CPUs used by other programs above which a measurement"
        " is not trusted",
    )
    matters: Share | None = Field(
        None,
        description="Smallest effect that matters in a comparison, as a share (default: 3% of"
        " throughput, 10% of p99 at a held rate)",
    )

    @field_validator("matters")
    @classmethod
    def _margin(cls, matters: float | None) -> float | None:
        if matters is not None and not MATTERS_MIN <= matters <= MATTERS_MAX:
            raise ValueError("must be between 0.1% and 50%")
        return matters

    @field_validator("cpus")
    @classmethod
    def _distinct_cpus(cls, cpus: list[int] | None) -> list[int] | None:
        for cpu in cpus or []:
            if not 0 <= cpu < CPUS_MAX:
                raise ValueError(f"{cpu} is not a CPU number (0 to {CPUS_MAX - 1})")
            if (cpus or []).count(cpu) > 1:
                raise ValueError(f"{cpu} is given twice")
        return cpus

    @model_validator(mode="after")
    def _steps_or_ramp(self) -> LoadSpec:
        if self.steps and self.ramp_ms:
            raise ValueError("ramp and steps cannot be used together")
        if [step.at_ms for step in self.steps] != sorted(step.at_ms for step in self.steps):
            raise ValueError("steps must be in the order of at")
        if self.steps and self.steps[0].at_ms != 0:
            raise ValueError('the first step must begin at "0s"')
        if self.hold_ms <= 0:
            raise ValueError("hold must be longer than 0")
        return self

    @model_validator(mode="after")
    def _backoff_grows(self) -> LoadSpec:
        if self.backoff_min_ms > self.backoff_max_ms:
            raise ValueError("backoff_min must not be longer than backoff_max")
        return self

    @model_validator(mode="after")
    def _log_fits(self) -> LoadSpec:
        every_ms = self.log.aggregate_interval_ms if self.log else None
        if every_ms is not None and self.transactions is None and self.hold_ms % every_ms:
            raise Misfit(
                Key("hold"),
                f", {format_duration(self.hold_ms)}, must be a multiple of ",
                Key("log.aggregate_interval"),
                f", {format_duration(every_ms)}",
            )
        return self

    @model_validator(mode="after")
    def _parameters_fit_protocol(self) -> LoadSpec:
        if self.parameters == "binary" and self.protocol == "simple":
            raise ValueError(
                'parameters = "binary" needs protocol = "extended" or "prepared"; the simple'
                " protocol has no parameters"
            )
        return self


class Event(Part):
    """An action at a given time of the run."""

    at_ms: Duration = Field(alias="at")
    sql: str | None = None
    settings: dict[str, SettingValue] | None = None

    @model_validator(mode="after")
    def _one_action(self) -> Event:
        if (self.sql is None) == (self.settings is None):
            raise ValueError("an event needs either sql or settings")
        return self


class Spec(Part):
    """A complete spec."""

    name: str = Field(
        "run",
        min_length=1,
        max_length=80,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="Name of the run and of its files",
    )
    description: str = ""
    server: ServerSpec = Field(default_factory=ServerSpec)
    http: HttpSpec | None = Field(
        None, description="A web server: the clients send requests to it, and no SQL"
    )
    front: FrontSpec | None = Field(
        None, description="A web application that pgdyno starts: the clients send requests to it"
    )
    disk: DiskSpec = Field(default_factory=DiskSpec)
    kernel: KernelSpec = Field(default_factory=KernelSpec)
    standby: StandbySpec = Field(default_factory=StandbySpec)
    pooler: PoolerSpec = Field(default_factory=PoolerSpec)
    workload: WorkloadSpec = Field(default_factory=WorkloadSpec)
    clients: list[ClientGroup] = Field(default_factory=lambda: [ClientGroup()], min_length=1)
    load: LoadSpec = Field(default_factory=LoadSpec)
    events: list[Event] = Field(default_factory=list)
    investigate: InvestigateSpec = Field(default_factory=InvestigateSpec)
    price: PriceSpec = Field(default_factory=PriceSpec)
    story: list[Chapter] = Field(default_factory=list, description="Chapters for pgdyno story")
    branches: list[Branch] = Field(
        default_factory=list, description="Variants for pgdyno branch, the first to compare with"
    )
    branching: BranchingSpec = Field(default_factory=BranchingSpec)
    govern: GovernSpec | None = Field(None, description="Governor to which clients keep")
    metrics: str | None = Field(
        None,
        description="Address of an endpoint with metrics for Prometheus during the load, as"
        " HOST:PORT, or a port of 127.0.0.1",
    )

    @field_validator("metrics")
    @classmethod
    def _metrics_address(cls, metrics: str | None) -> str | None:
        return metrics if metrics is None else str(parse_address(metrics))

    @model_validator(mode="before")
    @classmethod
    def _without_database(cls, fields: Any) -> Any:
        return with_defaults(fields) if isinstance(fields, dict) else fields

    @model_validator(mode="after")
    def _http_fits(self) -> Spec:
        check_http(self.http, self)
        return self

    @model_validator(mode="after")
    def _distinct_groups(self) -> Spec:
        names = [group.name for group in self.clients]
        if len(set(names)) != len(names):
            raise ValueError("client groups must have distinct names")
        return self

    @model_validator(mode="after")
    def _standbys_only_embedded(self) -> Spec:
        if not self.standby.receivers:
            return self
        if self.server.kind == "existing":
            raise ValueError("standby can only be used with server.kind = embedded")
        if self.server.age:
            raise ValueError(
                f"server.{self.server.age[0]}_age cannot be used with standby: no standby follows a"
                " server whose WAL was reset"
            )
        for name in MODE_SETTINGS:
            if name in self.server.settings:
                raise ValueError(f"standby.mode sets {name}; remove it from server.settings")
        return self

    @model_validator(mode="after")
    def _disks_only_embedded(self) -> Spec:
        if self.server.kind == "existing" and self.disk != DiskSpec():
            raise ValueError(
                "disk can only be used with server.kind = embedded; an existing server keeps its"
                " disks"
            )
        return self

    @model_validator(mode="after")
    def _shapes_do_not_conflict(self) -> Spec:
        for group in self.clients:
            arrival = group.open_loop
            if arrival is None or arrival.shape is None:
                continue
            if self.load.steps:
                raise ValueError(
                    f"load.steps cannot be used together with arrival.{arrival.shape} of the group"
                    f" {group.name}, as both change its rate"
                )
            if arrival.steps and arrival.steps[0].at_ms < self.load.ramp_ms:
                raise ValueError(
                    f"the group {group.name} has a rate step at"
                    f" {format_duration(arrival.steps[0].at_ms)}, before the end of the ramp"
                )
        return self

    @model_validator(mode="after")
    def _tables_only_embedded(self) -> Spec:
        if self.server.kind == "existing":
            for key in ("unlogged", "table_options", "indexes"):
                if getattr(self.workload, key):
                    raise ValueError(
                        f"workload.{key} can only be used with server.kind = embedded; tables of an"
                        " existing server are changed by compare --sql and --undo-sql only, and"
                        " pgdyno snapshot save NAME --from CONNINFO copies them into one that"
                        " pgdyno starts"
                    )
        return self

    @model_validator(mode="after")
    def _initialize_only_existing(self) -> Spec:
        if self.server.kind == "embedded" and self.workload.initialize:
            raise ValueError(
                "workload.initialize can only be used with server.kind = existing; on a server that"
                " pgdyno starts, tables are always made"
            )
        return self

    @model_validator(mode="after")
    def _has_active_group(self) -> Spec:
        if all(group.idle for group in self.clients):
            raise ValueError("all client groups are idle; at least one must not be")
        return self

    @model_validator(mode="after")
    def _events_fall_within(self) -> Spec:
        end_ms = self.load.ramp_ms + self.load.hold_ms
        for event in self.events:
            if event.at_ms >= end_ms:
                raise ValueError(
                    f"the event at {format_duration(event.at_ms)} is not before the end of the load"
                    f" at {format_duration(end_ms)}"
                )
        return self

    @model_validator(mode="after")
    def _branches_fit(self) -> Spec:
        others = {
            "story": self.story,
            "events": self.events,
            "standby": self.standby.receivers,
            "load.steps": self.load.steps,
            "load.ramp": self.load.ramp_ms,
            "server.xid_age or mxid_age": self.server.age,
        }
        groups = [group.name for group in self.clients]
        check_branches(
            self.branches,
            groups,
            hold_ms=self.load.hold_ms,
            embedded=self.server.kind == "embedded",
            others=others,
        )
        return self

    @model_validator(mode="after")
    def _governed(self) -> Spec:
        load = self.load
        others = {"load.steps": load.steps, "load.ramp": load.ramp_ms, "branches": self.branches}
        others |= {"load.transactions": load.transactions, "http": self.http}
        check_governed(self.govern, others)
        return self

    @model_validator(mode="after")
    def _scale_for_clients(self) -> Spec:
        """Make the default scale the number of clients: a row in pgbench_branches for each."""
        clients = sum(group.count for group in self.clients if not group.idle)
        if not self.workload.scale_given and clients > 1 and self.http is None:
            fields = self.workload.model_copy(update={"scale": min(clients, SCALE_DEFAULT_MAX)})
            fields.model_fields_set.discard("scale")
            self.__dict__["workload"] = fields
        return self

    @property
    def command(self) -> str:
        """The command that the spec is written for: story, branch, investigate or run."""
        if self.story:
            return "story"
        if self.branches:
            return "branch"
        return "investigate" if "investigate" in self.model_fields_set else "run"

    def with_scale(self, scale: int) -> Spec:
        """Return a copy with the scale of the tables."""
        if scale == self.workload.scale:
            return self
        workload = self.workload.model_copy(update={"scale": scale})
        return self.model_copy(update={"workload": workload})

    def runs(self, builtin: str) -> bool:
        """Return whether a client group runs this built-in workload, alone or within a mix."""
        groups = [group for group in self.clients if not group.idle]
        return any(runs_builtin(self.mix_of(group), builtin) for group in groups)

    def mix_of(self, group: ClientGroup) -> str | list[ScriptPart]:
        """Return the script mix of ``group``."""
        return self.workload.script if group.script is None else group.script
