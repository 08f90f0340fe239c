"""The spec: what to load, how, and on which server. Every key has a default.

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
"""An empty data directory with its first WAL segments has some 60 MB."""
SEED_MAX = (1 << 64) - 1


def _text_or_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a variable is a string or a number")
    return value


Variable = Annotated[str | int | float, BeforeValidator(_text_or_number)]


class ServerSpec(Part):
    """Which PostgreSQL: one that pgdyno starts for the run, or one that is there."""

    kind: Literal["embedded", "existing"] = "embedded"
    conninfo: str | None = Field(None, description="For kind = existing: a URI or key=value string")
    control: str | None = Field(
        None,
        description="For kind = existing, when conninfo leads to a pooler: the server itself, for"
        " set-up and probes; default where the server says it listens",
    )
    wait_ms: Duration = Field(
        60_000,
        alias="wait",
        description="For kind = existing: how long to wait while another pgdyno loads it",
    )
    version: int | None = Field(
        None, ge=14, le=99, description="For kind = embedded: major version; default the newest"
    )
    bindir: str | None = Field(
        None, description="For kind = embedded: folder with the server's programs"
    )
    settings: dict[str, SettingValue] = Field(
        default_factory=dict, description="Settings to start an embedded server with"
    )
    checksums: bool | None = Field(
        None,
        description="For kind = embedded: data checksums; default as the version's initdb does",
    )

    @model_validator(mode="after")
    def _fits_kind(self) -> ServerSpec:
        if self.kind == "existing" and (self.settings or self.bindir or self.version):
            raise ValueError(
                "settings, version and bindir are for kind = embedded; settings of an existing"
                " server are changed only by a trial, with --apply"
            )
        if self.kind == "existing" and self.checksums is not None:
            raise ValueError(
                "checksums is for kind = embedded; an existing server has or lacks them"
            )
        if self.kind == "embedded" and self.conninfo is not None:
            raise ValueError('conninfo is for kind = "existing"')
        if self.control is not None and self.conninfo is None:
            raise ValueError("control goes with conninfo, which says where the clients connect")
        return self


class DiskSpec(Part):
    """Where the data and the WAL of an embedded server live."""

    data: DataDisk = Field("plain", description=f"A disk: {', '.join(DISK_EXAMPLES)}")
    wal: WalDisk = Field("data", description="A disk of its own, or data: with the data")

    @model_validator(mode="after")
    def _data_fit(self) -> DiskSpec:
        size = self.data_plan.size_bytes
        if size is not None and size < DATA_BYTES_MIN:
            raise ValueError(f"data: a data directory needs at least {format_size(DATA_BYTES_MIN)}")
        return self

    @property
    def data_plan(self) -> DiskPlan:
        """The data's disk."""
        return disk_plan(self.data)

    @property
    def wal_plan(self) -> DiskPlan | None:
        """The WAL's disk; ``None``: with the data."""
        return wal_plan(self.wal)


SCALE_DEFAULT_MAX = 100
"""Beyond it, 1.6 GB, nobody wants to wait for tables that were not asked for."""


class WorkloadSpec(Part):
    """What the clients do."""

    script: ScriptMix = Field(
        DEFAULT_SCRIPT,
        description=f"One of {', '.join(BUILTIN_SCRIPTS)}, or scripts with weights",
    )
    scale: int = Field(
        1,
        ge=1,
        le=100_000,
        description="pgbench's scale: 100,000 accounts each; default as many as clients, up to"
        f" {SCALE_DEFAULT_MAX}",
    )
    setup: str | None = Field(
        None,
        description="SQL file to execute once, before the load, in pgdyno's own database; with"
        " initialize in the one that conninfo names",
    )
    initialize: bool = Field(
        False,
        description="For kind = existing: make pgbench's tables in the database that conninfo"
        " names, where pgbench's four are dropped first",
    )
    init: InitSpec = Field(default_factory=InitSpec, description="How pgbench's tables are made")
    vacuum: Literal["own", "none", "all"] = Field(
        "own",
        description="Before the load: tables that pgdyno made, none, or all of pgbench's",
    )
    setup_text: str | None = Field(
        None, description="What is in setup, which is then not read: run files have it"
    )
    variables: dict[str, Variable] = Field(default_factory=dict)
    unlogged: bool = Field(
        False, description="For kind = embedded: tables without WAL, which a crash empties"
    )
    table_options: dict[str, dict[str, SettingValue]] = Field(
        default_factory=dict,
        description="For kind = embedded: storage parameters by table, set once the tables are"
        " made, as { pgbench_accounts = { fillfactor = 90 } }",
    )

    @model_validator(mode="after")
    def _text_of_a_file(self) -> WorkloadSpec:
        if self.setup_text is not None and self.setup is None:
            raise ValueError("setup_text is that of setup, and wants its name")
        return self

    @property
    def scale_said(self) -> bool:
        """Whether the scale is what someone asked for, and not the default."""
        return "scale" in self.model_fields_set


class LoadStep(Part):
    """From ``at`` on, every group has ``share`` of its clients."""

    at_ms: Duration = Field(alias="at")
    share: float = Field(gt=0, le=1)


class LogSpec(Part):
    """pgbench's log of transactions, in the format of version 18."""

    prefix: str = Field("pgbench_log", min_length=1, description="Files are PREFIX.PID[.THREAD]")
    sampling_rate: float | None = Field(
        None, gt=0, le=1, description="Share of the transactions that are in it"
    )
    aggregate_interval_ms: PositiveDuration | None = Field(
        None, alias="aggregate_interval", description="Whole seconds that make one line"
    )
    failures_detailed: bool = Field(
        False, description="Tell serialization failures and deadlocks apart"
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> LogSpec:
        if self.sampling_rate is not None and self.aggregate_interval_ms is not None:
            raise ValueError("sampling_rate and aggregate_interval cannot be used together")
        if (self.aggregate_interval_ms or 0) % 1000:
            raise ValueError("aggregate_interval must be whole seconds")
        return self


class LoadSpec(Part):
    """How long, how fast the clients come, and how the engine sends."""

    ramp_ms: Duration = Field(
        0, alias="ramp", description="Linear from no client, or no rate, to all of them"
    )
    hold_ms: Duration = Field(30_000, alias="hold")
    steps: list[LoadStep] = Field(default_factory=list, description="Instead of a ramp")
    transactions: int | None = Field(
        None,
        ge=1,
        le=TRANSACTIONS_MAX,
        description="Of each client; hold is then the most it takes",
    )
    threads: int = Field(1, ge=1, le=1024, description="Threads of the load engine")
    reactor: Literal["auto", "mio", "io_uring"] = Field(
        "auto", description="The engine's event loop; auto takes io_uring where the kernel allows"
    )
    cpus: list[int] | None = Field(
        None, min_length=1, max_length=CPUS_MAX, description="Processors for the engine's threads"
    )
    nice: int | None = Field(None, ge=-20, le=19, description="Nice level of the engine's threads")
    connecting_max: int = Field(
        100,
        ge=1,
        le=CLIENTS_MAX,
        description="Connections made at once; others wait their turn. As many as clients: a storm",
    )
    protocol: Literal["simple", "extended", "prepared"] = "prepared"
    parameters: Literal["text", "binary"] = Field(
        "text", description="How values are sent with protocol extended or prepared"
    )
    max_tries: int = Field(10, ge=0, le=1_000_000, description="0 is no limit")
    max_failures: FailuresLimit = Field(
        failures.DEFAULT,
        description="Failed transactions up to which a measurement is trusted: a share or a number",
    )
    exit_on_abort: bool = Field(
        False,
        description="End the run with the first transaction that fails for good, or with the first"
        " connection that is lost",
    )
    seed: int | None = Field(None, ge=0, le=SEED_MAX)
    acks: str | None = Field(
        None, min_length=1, description="Folder for the clients' own record of acknowledged commits"
    )
    log: LogSpec | None = Field(None, description="For pgdyno run: pgbench's log of transactions")
    verbose_errors: bool = Field(
        False, description="Tell every error while the load runs, not the first of each kind"
    )
    max_other_programs: Share = Field(
        1 / 3,
        description="Part of the server's cores that other programs may use before the measurement"
        " is not trusted",
    )

    @field_validator("cpus")
    @classmethod
    def _distinct_cpus(cls, cpus: list[int] | None) -> list[int] | None:
        for cpu in cpus or []:
            if not 0 <= cpu < CPUS_MAX:
                raise ValueError(f"{cpu} is not the number of a processor")
            if (cpus or []).count(cpu) > 1:
                raise ValueError(f"{cpu} is named twice")
        return cpus

    @model_validator(mode="after")
    def _steps_or_ramp(self) -> LoadSpec:
        if self.steps and self.ramp_ms:
            raise ValueError("give either ramp or steps")
        if [step.at_ms for step in self.steps] != sorted(step.at_ms for step in self.steps):
            raise ValueError("steps must be in the order of their times")
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
                f"hold, {format_duration(self.hold_ms)}, must be a multiple of the log's"
                f" aggregate_interval, {format_duration(every_ms)}"
            )
        return self

    @model_validator(mode="after")
    def _values_apart(self) -> LoadSpec:
        if self.parameters == "binary" and self.protocol == "simple":
            raise ValueError(
                'parameters = "binary" needs protocol = "extended" or "prepared": the simple one'
                " has its values in the text"
            )
        return self


class Event(Part):
    """Something to do at a moment of the run."""

    at_ms: Duration = Field(alias="at")
    sql: str | None = None
    settings: dict[str, SettingValue] | None = None

    @model_validator(mode="after")
    def _one_action(self) -> Event:
        if (self.sql is None) == (self.settings is None):
            raise ValueError("an event has either sql or settings")
        return self


class InvestigateSpec(Part):
    """Bounds of ``pgdyno investigate``."""

    budget_ms: PositiveDuration = Field(300_000, alias="budget")
    allow: DurabilityClass = "D0"


class PriceSpec(Part):
    """What ``pgdyno price`` is to price, where its options do not say."""

    ladder: list[str] | None = Field(
        None, description="Names of the default list; all, or none beside candidates"
    )
    candidates: list[str] = Field(
        default_factory=list,
        description="Candidates of your own: settings and keys, as 'full_page_writes=off'",
    )
    cuts: int = Field(6, ge=0, le=1000, description="Of each drill, at most")
    budget_ms: PositiveDuration | None = Field(
        None, alias="budget", description="Time for gains and drills (default 65 s a candidate)"
    )


class Spec(Part):
    """All of it. ``name`` names the run and its files."""

    name: str = Field("run", min_length=1, max_length=80, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
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
    story: list[Chapter] = Field(default_factory=list, description="For pgdyno story")

    @model_validator(mode="after")
    def _distinct_groups(self) -> Spec:
        names = [group.name for group in self.clients]
        if len(set(names)) != len(names):
            raise ValueError("two client groups have the same name")
        return self

    @model_validator(mode="after")
    def _standbys_are_ours(self) -> Spec:
        if not self.standby.receivers:
            return self
        if self.server.kind == "existing":
            raise ValueError("standby is for a server that pgdyno starts (kind = embedded)")
        for name in MODE_SETTINGS:
            if name in self.server.settings:
                raise ValueError(f"{name} is what standby.mode sets; leave it out of the settings")
        return self

    @model_validator(mode="after")
    def _disks_are_ours(self) -> Spec:
        if self.server.kind == "existing" and self.disk != DiskSpec():
            raise ValueError(
                "disk is for a server that pgdyno starts; an existing one keeps the disks it has"
            )
        return self

    @model_validator(mode="after")
    def _shapes_do_not_compete(self) -> Spec:
        for group in self.clients:
            arrival = group.open_loop
            if arrival is None or arrival.shape is None:
                continue
            if self.load.steps:
                raise ValueError(
                    f"load.steps changes the rates of open loops, and the group {group.name} has"
                    f" {arrival.shape} of its own"
                )
            if arrival.steps and arrival.steps[0].at_ms < self.load.ramp_ms:
                raise ValueError(
                    f"the group {group.name} has a step at"
                    f" {format_duration(arrival.steps[0].at_ms)}, before the ramp ends"
                )
        return self

    @model_validator(mode="after")
    def _tables_are_ours(self) -> Spec:
        if self.server.kind == "existing":
            for key in ("unlogged", "table_options"):
                if getattr(self.workload, key):
                    raise ValueError(
                        f"workload.{key} is for a server that pgdyno starts; tables of an existing"
                        " one stay as they are"
                    )
        return self

    @model_validator(mode="after")
    def _initialize_there(self) -> Spec:
        if self.server.kind == "embedded" and self.workload.initialize:
            raise ValueError(
                "workload.initialize is for a server that is there; one that pgdyno starts has its"
                " tables made in any case"
            )
        return self

    @model_validator(mode="after")
    def _something_is_sent(self) -> Spec:
        if all(group.idle for group in self.clients):
            raise ValueError("every client group is idle, so nothing would be sent")
        return self

    @model_validator(mode="after")
    def _events_fall_within(self) -> Spec:
        end_ms = self.load.ramp_ms + self.load.hold_ms
        for event in self.events:
            if event.at_ms >= end_ms:
                raise ValueError(
                    f"the event at {format_duration(event.at_ms)} comes after the load's end at"
                    f" {format_duration(end_ms)}"
                )
        return self

    @model_validator(mode="after")
    def _scale_for_clients(self) -> Spec:
        """A row in pgbench_branches for each client, unless the scale is said."""
        clients = sum(group.count for group in self.clients if not group.idle)
        if not self.workload.scale_said and clients > 1:
            fields = self.workload.model_copy(update={"scale": min(clients, SCALE_DEFAULT_MAX)})
            fields.model_fields_set.discard("scale")
            self.__dict__["workload"] = fields
        return self

    def with_scale(self, scale: int) -> Spec:
        """The same with the scale that the tables have."""
        if scale == self.workload.scale:
            return self
        workload = self.workload.model_copy(update={"scale": scale})
        return self.model_copy(update={"workload": workload})

    def mix_of(self, group: ClientGroup) -> str | list[ScriptPart]:
        """What ``group`` executes."""
        return self.workload.script if group.script is None else group.script
