"""The spec: server, workload, clients and load. Every key has a default.

Durations are written with PostgreSQL's units (``"10s"``); the key in the file has no unit in its
name, the attribute has (``ramp`` in the file is ``ramp_ms`` here).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from pgdyno.spec import failures
from pgdyno.spec._base import CLIENTS_MAX, Duration, Part, PositiveDuration, SettingValue, Share
from pgdyno.spec._clients import TRANSACTIONS_MAX, ClientGroup
from pgdyno.spec.disk import DISK_EXAMPLES, DataDisk, DiskPlan, WalDisk, disk_plan, wal_plan
from pgdyno.spec.durability import DurabilityClass
from pgdyno.spec.failures import FailuresLimit
from pgdyno.spec.mix import BUILTIN_SCRIPTS, DEFAULT_SCRIPT, ScriptMix, ScriptPart
from pgdyno.spec.standby import MODE_SETTINGS, StandbySpec
from pgdyno.spec.story import Chapter
from pgdyno.spec.tables import InitSpec
from pgdyno.spec.units import format_duration, format_size

CPUS_MAX = 4096
DATA_BYTES_MIN = 128 << 20
"""An empty data directory with its first WAL segments has about 60 MB."""
SEED_MAX = (1 << 64) - 1


def _text_or_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a variable must be a string or a number")
    return value


Variable = Annotated[str | int | float, BeforeValidator(_text_or_number)]


class ServerSpec(Part):
    """The PostgreSQL server: one that pgdyno starts for the run, or an existing one."""

    kind: Literal["embedded", "existing"] = "embedded"
    conninfo: str | None = Field(None, description="For kind = existing: a URI or key=value string")
    control: str | None = Field(
        None,
        description="For kind = existing, if conninfo is that of a pooler: connection string of the"
        " server itself, for setup and probes; default: the address that the server reports",
    )
    wait_ms: Duration = Field(
        60_000,
        alias="wait",
        description="For kind = existing: how long to wait for another pgdyno that uses it",
    )
    version: int | None = Field(
        None, ge=14, le=99, description="For kind = embedded: major version (default: the newest)"
    )
    bindir: str | None = Field(
        None, description="For kind = embedded: directory of the PostgreSQL binaries"
    )
    settings: dict[str, SettingValue] = Field(
        default_factory=dict, description="For kind = embedded: settings of the server"
    )
    checksums: bool | None = Field(
        None,
        description="For kind = embedded: data checksums (default: that of initdb)",
    )

    @model_validator(mode="after")
    def _fits_kind(self) -> ServerSpec:
        if self.kind == "existing" and (self.settings or self.bindir or self.version):
            raise ValueError(
                "settings, version and bindir can only be used with kind = embedded; settings of an"
                " existing server are changed only by a trial with --apply"
            )
        if self.kind == "existing" and self.checksums is not None:
            raise ValueError("checksums can only be used with kind = embedded")
        if self.kind == "embedded" and self.conninfo is not None:
            raise ValueError('conninfo can only be used with kind = "existing"')
        if self.control is not None and self.conninfo is None:
            raise ValueError("control can only be used with conninfo, where the clients connect")
        return self


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
        description="SQL file executed once before the load, in the database pgdyno, or with"
        " initialize in the database that conninfo names",
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
    variables: dict[str, Variable] = Field(default_factory=dict)
    unlogged: bool = Field(
        False, description="For kind = embedded: unlogged tables, which are empty after a crash"
    )
    table_options: dict[str, dict[str, SettingValue]] = Field(
        default_factory=dict,
        description="For kind = embedded: storage parameters by table, set after the tables are"
        " made, such as { pgbench_accounts = { fillfactor = 90 } }",
    )

    @model_validator(mode="after")
    def _text_of_a_file(self) -> WorkloadSpec:
        if self.setup_text is not None and self.setup is None:
            raise ValueError("setup_text can only be used with setup")
        return self

    @property
    def scale_given(self) -> bool:
        """True if the scale was given and is not the default."""
        return "scale" in self.model_fields_set


class LoadStep(Part):
    """A step of a profile: from ``at`` on, every group runs ``share`` of its clients."""

    at_ms: Duration = Field(alias="at")
    share: float = Field(gt=0, le=1)


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
            raise ValueError("sampling_rate and aggregate_interval cannot be used together")
        if (self.aggregate_interval_ms or 0) % 1000:
            raise ValueError("aggregate_interval must be whole seconds")
        return self


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
        1 / 3,
        description="Share of the server's CPUs used by other programs above which a measurement"
        " is not trusted",
    )

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
    def _log_fits(self) -> LoadSpec:
        every_ms = self.log.aggregate_interval_ms if self.log else None
        if every_ms is not None and self.transactions is None and self.hold_ms % every_ms:
            raise ValueError(
                f"hold, {format_duration(self.hold_ms)}, must be a multiple of"
                f" log.aggregate_interval, {format_duration(every_ms)}"
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


class InvestigateSpec(Part):
    """Limits of ``pgdyno investigate``."""

    budget_ms: PositiveDuration = Field(
        300_000, alias="budget", description="Time for the investigation"
    )
    allow: DurabilityClass = Field("D0", description="Durability limit of the remedies")


class PriceSpec(Part):
    """Defaults of ``pgdyno price``; its options have precedence."""

    ladder: list[str] | None = Field(
        None,
        description="Names of built-in candidates (default: all, or none if candidates is given)",
    )
    candidates: list[str] = Field(
        default_factory=list,
        description="Additional candidates: settings or keys, such as 'full_page_writes=off'",
    )
    cuts: int = Field(6, ge=0, le=1000, description="Maximum number of cuts of each drill")
    budget_ms: PositiveDuration | None = Field(
        None, alias="budget", description="Time for gains and drills (default: 65 s per candidate)"
    )


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
    disk: DiskSpec = Field(default_factory=DiskSpec)
    standby: StandbySpec = Field(default_factory=StandbySpec)
    workload: WorkloadSpec = Field(default_factory=WorkloadSpec)
    clients: list[ClientGroup] = Field(default_factory=lambda: [ClientGroup()], min_length=1)
    load: LoadSpec = Field(default_factory=LoadSpec)
    events: list[Event] = Field(default_factory=list)
    investigate: InvestigateSpec = Field(default_factory=InvestigateSpec)
    price: PriceSpec = Field(default_factory=PriceSpec)
    story: list[Chapter] = Field(default_factory=list, description="Chapters for pgdyno story")

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
            for key in ("unlogged", "table_options"):
                if getattr(self.workload, key):
                    raise ValueError(
                        f"workload.{key} can only be used with server.kind = embedded; tables of an"
                        " existing server are not changed"
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
    def _scale_for_clients(self) -> Spec:
        """Make the default scale the number of clients: a row in pgbench_branches for each."""
        clients = sum(group.count for group in self.clients if not group.idle)
        if not self.workload.scale_given and clients > 1:
            fields = self.workload.model_copy(update={"scale": min(clients, SCALE_DEFAULT_MAX)})
            fields.model_fields_set.discard("scale")
            self.__dict__["workload"] = fields
        return self

    @property
    def command(self) -> str:
        """The command that the spec is written for: story, investigate or run."""
        if self.story:
            return "story"
        return "investigate" if "investigate" in self.model_fields_set else "run"

    def with_scale(self, scale: int) -> Spec:
        """Return a copy with the scale of the tables."""
        if scale == self.workload.scale:
            return self
        workload = self.workload.model_copy(update={"scale": scale})
        return self.model_copy(update={"workload": workload})

    def mix_of(self, group: ClientGroup) -> str | list[ScriptPart]:
        """Return the script mix of ``group``."""
        return self.workload.script if group.script is None else group.script
