"""The table ``load`` of a spec: duration, ramp, engine, retries, limits, and the log of pgbench."""

import re
from typing import Annotated, Any, Literal, Self

from msgspec import Struct
from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from pgdyno.spec._base import (
    CLIENTS_MAX,
    Duration,
    Misfit,
    PositiveDuration,
    Share,
    SpecKey,
    SpecTable,
)
from pgdyno.spec._clients import TRANSACTIONS_MAX
from pgdyno.spec.units import format_duration

MAX_FAILURES_DEFAULT = "1%"
_LIMIT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(%?)")
MAX_OTHER_PROGRAMS = 0.2
"""Share of the cores of programs beside the load, above which a measurement is not trusted."""
CPUS_MAX = 4096
SEED_MAX = (1 << 64) - 1


class FailuresMax(Struct, frozen=True):
    """A limit of failed transactions: exactly one of ``share`` and ``count``."""

    share: float | None = None
    """Share of the finished transactions, 0 to 1."""
    count: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``1%`` or ``100``. Raises ValueError with a message for users."""
        match = _LIMIT.fullmatch(text.strip())
        if match is None or (not match[2] and "." in match[1]):
            raise ValueError(f'"{text}" is neither a share such as 1% nor a number such as 100')
        if not match[2]:
            return cls(count=int(match[1]))
        if float(match[1]) > 100:
            raise ValueError(f'"{text}" is more than 100%')
        return cls(share=float(match[1]) / 100)

    def allows(self, failed: int, ended: int) -> bool:
        """True if ``failed`` of ``ended`` transactions is within the limit."""
        if self.count is not None:
            return failed <= self.count
        return failed <= (self.share or 0.0) * ended

    def __str__(self) -> str:
        if self.count is not None:
            return f"{self.count:,}"
        return f"{100 * (self.share or 0.0):.3g} %"


def _limit_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError('must be a share such as "1%" or a number such as 100')
    FailuresMax.parse(str(value))
    return str(value).strip()


FailuresLimit = Annotated[
    str,
    BeforeValidator(_limit_text),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["1%", 100]}),
]


MATTERS_MIN, MATTERS_MAX = 0.001, 0.5
"""Bounds of the smallest effect that matters."""


class LogSpec(SpecTable):
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
    def _one_of_both(self) -> Self:
        if self.sampling_rate is not None and self.aggregate_interval_ms is not None:
            raise Misfit(
                SpecKey("sampling_rate"),
                " and ",
                SpecKey("aggregate_interval"),
                " cannot be used together",
            )
        if (self.aggregate_interval_ms or 0) % 1000:
            raise Misfit(SpecKey("aggregate_interval"), " must be whole seconds")
        return self


class LoadStep(SpecTable):
    """A step of a profile: from ``at`` on, every group runs ``share`` of its clients."""

    at_ms: Duration = Field(alias="at")
    share: float = Field(gt=0, le=1)


class LoadSpec(SpecTable):
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
        MAX_FAILURES_DEFAULT,
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
    plans: Literal["none", "explain", "analyze", "try"] | None = Field(
        None,
        description="Look at the plans of the load's statements: none, explain, analyze, which also"
        " executes reads, or try, which executes and undoes all statements, with changes that may"
        " make them faster: settings of the session, and indexes, for which writers of the table"
        " wait (default: try on a server that pgdyno starts, where analyze is the same; explain on"
        " any other)",
    )
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
    def _steps_or_ramp(self) -> Self:
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
    def _backoff_grows(self) -> Self:
        if self.backoff_min_ms > self.backoff_max_ms:
            raise ValueError("backoff_min must not be longer than backoff_max")
        return self

    @model_validator(mode="after")
    def _log_fits(self) -> Self:
        every_ms = self.log.aggregate_interval_ms if self.log else None
        if every_ms is not None and self.transactions is None and self.hold_ms % every_ms:
            raise Misfit(
                SpecKey("hold"),
                f", {format_duration(self.hold_ms)}, must be a multiple of ",
                SpecKey("log.aggregate_interval"),
                f", {format_duration(every_ms)}",
            )
        return self

    @model_validator(mode="after")
    def _parameters_fit_protocol(self) -> Self:
        if self.parameters == "binary" and self.protocol == "simple":
            raise ValueError(
                'parameters = "binary" needs protocol = "extended" or "prepared"; the simple'
                " protocol has no parameters"
            )
        return self
