"""The spec: what to load, how, and on which server. Every key has a default.

Durations are written with PostgreSQL's units (``"10s"``) and kept in milliseconds; the key in the
file has no unit in its name, the attribute has (``ramp`` in the file is ``ramp_ms`` here).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from pgdyno.spec.units import format_duration, parse_duration_ms

CLIENTS_MAX = 100_000
DURATION_MS_MAX = 366 * 86_400_000

DurabilityClass = Literal["D0", "D1", "D2", "D3"]

BUILTIN_SCRIPTS = ("tpcb-like", "simple-update", "select-only", "mixed")


def _bounded_duration(duration_ms: int) -> int:
    if duration_ms > DURATION_MS_MAX:
        raise ValueError("is longer than a year")
    return duration_ms


Duration = Annotated[
    int,
    BeforeValidator(parse_duration_ms),
    AfterValidator(_bounded_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "examples": ["10s", "200ms", "5min"]}),
]


def _setting_text(value: Any) -> str:
    """A server setting as PostgreSQL spells it; TOML's booleans and numbers are welcome."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("a setting is a string, a number or a boolean")


SettingValue = Annotated[
    str,
    BeforeValidator(_setting_text),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True, frozen=True)


class ServerSpec(_Part):
    """Which PostgreSQL: one that pgdyno starts for the run, or one that is there."""

    kind: Literal["embedded", "existing"] = "embedded"
    conninfo: str | None = Field(None, description="For kind = existing: a URI or key=value string")
    version: int | None = Field(
        None, ge=14, le=99, description="For kind = embedded: major version; default the newest"
    )
    bindir: str | None = Field(
        None, description="For kind = embedded: folder with the server's programs"
    )
    settings: dict[str, SettingValue] = Field(
        default_factory=dict, description="Settings to start an embedded server with"
    )

    @model_validator(mode="after")
    def _fits_kind(self) -> ServerSpec:
        if self.kind == "existing" and (self.settings or self.bindir or self.version):
            raise ValueError(
                "settings, version and bindir are for kind = embedded; settings of an existing"
                " server are changed only by a trial, with --apply"
            )
        if self.kind == "embedded" and self.conninfo is not None:
            raise ValueError('conninfo is for kind = "existing"')
        return self


class DiskSpec(_Part):
    """Where data and WAL live. This version has plain folders."""

    data: Literal["plain"] = "plain"
    wal: Literal["plain"] = "plain"


class ScriptFile(_Part):
    """One script of a mix."""

    file: str
    weight: int = Field(1, ge=0, le=1_000_000)


class WorkloadSpec(_Part):
    """What the clients do."""

    script: str | list[ScriptFile] = Field(
        "tpcb-like", description=f"One of {', '.join(BUILTIN_SCRIPTS)}, or files with weights"
    )
    scale: int = Field(1, ge=1, le=100_000, description="pgbench's scale: 100,000 accounts each")
    variables: dict[str, str | int | float] = Field(default_factory=dict)

    @field_validator("script")
    @classmethod
    def _known_script(cls, script: str | list[ScriptFile]) -> str | list[ScriptFile]:
        if isinstance(script, str) and script not in BUILTIN_SCRIPTS:
            raise ValueError(
                f'"{script}" is not one of {", ".join(BUILTIN_SCRIPTS)}'
                ' (a file is written [{ file = "…", weight = 1 }])'
            )
        if isinstance(script, list) and sum(part.weight for part in script) == 0:
            raise ValueError("at least one script needs a weight above 0")
        return script


class Pool(_Part):
    """A client-side connection pool, as DBCP or HikariCP have it."""

    max: int = Field(8, ge=1, le=CLIENTS_MAX, description="Most connections open at once")
    max_wait_ms: Duration = Field(
        30_000, alias="max_wait", description="How long a client waits for one before it fails"
    )


class ClientGroup(_Part):
    """Clients that share a script mix, an arrival process and a pool."""

    name: str = Field("clients", min_length=1, max_length=60)
    count: int = Field(8, ge=1, le=CLIENTS_MAX)
    arrival: Literal["closed"] = "closed"
    think_ms: Duration = Field(0, alias="think", description="Pause after each transaction")
    pool: Pool | None = Field(None, description="Without one, each client has its own connection")


class LoadStep(_Part):
    """From ``at`` on, every group has ``share`` of its clients."""

    at_ms: Duration = Field(alias="at")
    share: float = Field(gt=0, le=1)


class LoadSpec(_Part):
    """How long, how fast the clients come, and how the engine sends."""

    ramp_ms: Duration = Field(0, alias="ramp", description="Linear from no client to all of them")
    hold_ms: Duration = Field(30_000, alias="hold")
    steps: list[LoadStep] = Field(default_factory=list, description="Instead of a ramp")
    threads: int = Field(1, ge=1, le=1024, description="Threads of the load engine")
    protocol: Literal["simple", "extended", "prepared"] = "prepared"
    max_tries: int = Field(10, ge=1, le=1_000_000)
    seed: int | None = Field(None, ge=0, lt=1 << 63)

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


class Event(_Part):
    """Something to do at a moment of the run."""

    at_ms: Duration = Field(alias="at")
    sql: str | None = None
    settings: dict[str, SettingValue] | None = None

    @model_validator(mode="after")
    def _one_action(self) -> Event:
        if (self.sql is None) == (self.settings is None):
            raise ValueError("an event has either sql or settings")
        return self


class InvestigateSpec(_Part):
    """Bounds of ``pgdyno investigate``."""

    budget_ms: Duration = Field(300_000, alias="budget")
    allow: DurabilityClass = "D0"


class Spec(_Part):
    """All of it. ``name`` names the run and its files."""

    name: str = Field("run", min_length=1, max_length=80, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str = ""
    server: ServerSpec = Field(default_factory=ServerSpec)
    disk: DiskSpec = Field(default_factory=DiskSpec)
    workload: WorkloadSpec = Field(default_factory=WorkloadSpec)
    clients: list[ClientGroup] = Field(default_factory=lambda: [ClientGroup()], min_length=1)
    load: LoadSpec = Field(default_factory=LoadSpec)
    events: list[Event] = Field(default_factory=list)
    investigate: InvestigateSpec = Field(default_factory=InvestigateSpec)

    @model_validator(mode="after")
    def _distinct_groups(self) -> Spec:
        names = [group.name for group in self.clients]
        if len(set(names)) != len(names):
            raise ValueError("two client groups have the same name")
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
