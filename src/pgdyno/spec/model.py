"""The spec: server, workload, clients and load. Every key has a default.

Durations are written with PostgreSQL's units (``"10s"``); the key in the file has no unit in its
name, the attribute has (``ramp`` in the file is ``ramp_ms`` here).
"""

from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from pgdyno.spec._base import Duration, PositiveDuration, SettingValue, SpecTable
from pgdyno.spec._clients import ClientGroup
from pgdyno.spec.address import parse_address
from pgdyno.spec.branches import Branch, BranchingSpec, check_branches
from pgdyno.spec.disk import DISK_EXAMPLES, DataDisk, DiskPlan, WalDisk, disk_plan, wal_plan
from pgdyno.spec.durability import DurabilityClass
from pgdyno.spec.front import FrontSpec
from pgdyno.spec.govern import GovernSpec, check_governed
from pgdyno.spec.http import HttpSpec, check_http, with_defaults
from pgdyno.spec.kernel import KernelSpec
from pgdyno.spec.load import LoadSpec
from pgdyno.spec.pooler import PoolerSpec
from pgdyno.spec.server import ServerSpec
from pgdyno.spec.standby import MODE_SETTINGS, StandbySpec
from pgdyno.spec.story import Chapter
from pgdyno.spec.units import format_duration, format_size
from pgdyno.spec.workload import SCALE_DEFAULT_MAX, ScriptPart, WorkloadSpec, runs_builtin

DATA_BYTES_MIN = 128 << 20
"""An empty data directory with its first WAL segments has about 60 MB."""


class DiskSpec(SpecTable):
    """Disks for the data and the WAL of an embedded server."""

    data: DataDisk = Field("plain", description=f"Disk of the data: {', '.join(DISK_EXAMPLES)}")
    wal: WalDisk = Field("data", description="Disk of the WAL; data: the same as the data")

    @model_validator(mode="after")
    def _data_fit(self) -> Self:
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


class Event(SpecTable):
    """An action at a given time of the run."""

    at_ms: Duration = Field(alias="at")
    sql: str | None = None
    settings: dict[str, SettingValue] | None = None

    @model_validator(mode="after")
    def _one_action(self) -> Self:
        if (self.sql is None) == (self.settings is None):
            raise ValueError("an event needs either sql or settings")
        return self


class InvestigateSpec(SpecTable):
    """Limits of ``pgdyno investigate``."""

    budget_ms: PositiveDuration = Field(
        300_000, alias="budget", description="Time for the investigation"
    )
    allow: DurabilityClass = Field("D0", description="Durability limit of the remedies")


class PriceSpec(SpecTable):
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
        None,
        alias="budget",
        description="Time for gains and drills (default: 75 s per candidate or more)",
    )


class Spec(SpecTable):
    """A complete spec."""

    name: str = Field(
        "run",
        min_length=1,
        max_length=80,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="Name of the run and of its files",
    )
    description: str = ""
    server: ServerSpec = Field(default_factory=ServerSpec.default)
    http: HttpSpec | None = Field(
        None, description="A web server: the clients send requests to it, and no SQL"
    )
    front: FrontSpec | None = Field(
        None, description="A web application that pgdyno starts: the clients send requests to it"
    )
    disk: DiskSpec = Field(default_factory=DiskSpec.default)
    kernel: KernelSpec = Field(default_factory=KernelSpec.default)
    standby: StandbySpec = Field(default_factory=StandbySpec.default)
    pooler: PoolerSpec = Field(default_factory=PoolerSpec.default)
    workload: WorkloadSpec = Field(default_factory=WorkloadSpec.default)
    clients: list[ClientGroup] = Field(
        default_factory=lambda: [ClientGroup.default()], min_length=1
    )
    load: LoadSpec = Field(default_factory=LoadSpec.default)
    events: list[Event] = Field(default_factory=list)
    investigate: InvestigateSpec = Field(default_factory=InvestigateSpec.default)
    price: PriceSpec = Field(default_factory=PriceSpec.default)
    story: list[Chapter] = Field(default_factory=list, description="Chapters for pgdyno story")
    branches: list[Branch] = Field(
        default_factory=list, description="Variants for pgdyno branch, the first to compare with"
    )
    branching: BranchingSpec = Field(default_factory=BranchingSpec.default)
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
    def _http_fits(self) -> Self:
        check_http(self.http, self)
        return self

    @model_validator(mode="after")
    def _distinct_groups(self) -> Self:
        names = [group.name for group in self.clients]
        if len(set(names)) != len(names):
            raise ValueError("client groups must have distinct names")
        return self

    @model_validator(mode="after")
    def _standbys_only_embedded(self) -> Self:
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
    def _disks_only_embedded(self) -> Self:
        if self.server.kind == "existing" and self.disk != DiskSpec.default():
            raise ValueError(
                "disk can only be used with server.kind = embedded; an existing server keeps its"
                " disks"
            )
        return self

    @model_validator(mode="after")
    def _shapes_do_not_conflict(self) -> Self:
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
    def _tables_only_embedded(self) -> Self:
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
    def _initialize_only_existing(self) -> Self:
        if self.server.kind == "embedded" and self.workload.initialize:
            raise ValueError(
                "workload.initialize can only be used with server.kind = existing; on a server that"
                " pgdyno starts, tables are always made"
            )
        return self

    @model_validator(mode="after")
    def _has_active_group(self) -> Self:
        if all(group.idle for group in self.clients):
            raise ValueError("all client groups are idle; at least one must not be")
        return self

    @model_validator(mode="after")
    def _events_fall_within(self) -> Self:
        end_ms = self.load.ramp_ms + self.load.hold_ms
        for event in self.events:
            if event.at_ms >= end_ms:
                raise ValueError(
                    f"the event at {format_duration(event.at_ms)} is not before the end of the load"
                    f" at {format_duration(end_ms)}"
                )
        return self

    @model_validator(mode="after")
    def _branches_fit(self) -> Self:
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
    def _governed(self) -> Self:
        load = self.load
        others = {"load.steps": load.steps, "load.ramp": load.ramp_ms, "branches": self.branches}
        others |= {"load.transactions": load.transactions, "http": self.http}
        check_governed(self.govern, others)
        return self

    @model_validator(mode="after")
    def _scale_for_clients(self) -> Self:
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

    def with_scale(self, scale: int) -> Self:
        """Return a copy with the scale of the tables."""
        if scale == self.workload.scale:
            return self
        workload = self.workload.model_copy(update={"scale": scale})
        return self.model_copy(update={"workload": workload})

    def at_speed(self, factor: float) -> Self:
        """Return a copy whose rates are this many times as high, those of all groups. Raises
        ValueError for rates that are too high."""
        clients = [
            group.model_copy(update={"arrival": group.open_loop.at_speed(factor)})
            if group.open_loop
            else group
            for group in self.clients
        ]
        return self.model_copy(update={"clients": clients})

    def runs(self, builtin: str) -> bool:
        """Return whether a client group runs this built-in workload, alone or within a mix."""
        groups = [group for group in self.clients if not group.idle]
        return any(runs_builtin(self.mix_of(group), builtin) for group in groups)

    def mix_of(self, group: ClientGroup) -> str | list[ScriptPart]:
        """Return the script mix of ``group``."""
        return self.workload.script if group.script is None else group.script

    @property
    def scripts(self) -> tuple[object, ...]:
        """The keys that decide on the scripts of a load: two loads have the same if these are
        equal."""
        mixes = [self.mix_of(group) for group in self.clients]
        return mixes, self.workload.update_last, self.workload.ingest, self.workload.batch
