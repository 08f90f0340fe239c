"""When transactions are due: in a closed loop when the last one is done, in an open one by a rate.

An open loop has one schedule for all clients of its group. It has a rate, and at most one shape
that the rate follows; what happens to transactions that come due while every client is busy is
said, not left to chance.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from pgdyno.spec._base import Duration, Part, PositiveDuration
from pgdyno.spec.units import format_duration

RATE_MAX = 10_000_000.0
QUEUE_MAX = 1_000_000
_SHAPES = ("steps", "burst", "sine", "day")


def _number_of_rate(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise ValueError(f'"{value}" is not a rate: a number of transactions per second, as 500')
    return value


Rate = Annotated[float, BeforeValidator(_number_of_rate), Field(gt=0, le=RATE_MAX)]
RateOrNone = Annotated[float, BeforeValidator(_number_of_rate), Field(ge=0, le=RATE_MAX)]


class RateStep(Part):
    """From ``at`` on, counted from the load's start, another rate, reached over ``ramp``."""

    at_ms: PositiveDuration = Field(alias="at")
    rate: RateOrNone
    ramp_ms: Duration = Field(0, alias="ramp")

    @property
    def end_ms(self) -> int:
        """When its rate is reached."""
        return self.at_ms + self.ramp_ms


class Burst(Part):
    """Every so often, for a while, another rate."""

    every_ms: PositiveDuration = Field(alias="every")
    length_ms: PositiveDuration = Field(alias="length")
    rate: RateOrNone

    @model_validator(mode="after")
    def _fits(self) -> Burst:
        if self.length_ms >= self.every_ms:
            raise ValueError("a burst's length must be shorter than every")
        return self


class Sine(Part):
    """A wave around the rate."""

    amplitude: Rate
    period_ms: PositiveDuration = Field(alias="period")


def _some_load(factors: list[float]) -> list[float]:
    if max(factors) == 0:
        raise ValueError("at least one factor must be above 0")
    return factors


class Day(Part):
    """The rate's factor at each of 24 hours, in a straight line from one to the next."""

    factors: Annotated[
        list[Annotated[float, Field(ge=0, le=1000)]],
        Field(min_length=24, max_length=24),
        AfterValidator(_some_load),
    ]
    period_ms: PositiveDuration = Field(
        86_400_000, alias="period", description="How long the 24 hours take"
    )


class Arrival(Part):
    """An open loop: transactions come due by a rate, whatever became of the ones before."""

    rate: Rate = Field(description="Transactions per second, over all clients of the group")
    process: Literal["poisson", "constant"] = "poisson"
    steps: list[RateStep] = Field(default_factory=list)
    burst: Burst | None = None
    sine: Sine | None = None
    day: Day | None = None
    when_busy: Literal["queue", "skip"] = Field(
        "queue", description="What becomes of a transaction that comes due with no client free"
    )
    queue_max: int | None = Field(
        None,
        ge=1,
        le=1_000_000_000,
        description=f"Longest queue, beyond which transactions are skipped (default {QUEUE_MAX:,})",
    )

    @property
    def shape(self) -> str | None:
        """Which shape the rate follows; ``None`` when it is the same throughout."""
        return next((name for name in _SHAPES if getattr(self, name)), None)

    @model_validator(mode="after")
    def _one_shape(self) -> Arrival:
        shapes = [name for name in _SHAPES if getattr(self, name)]
        if len(shapes) > 1:
            raise ValueError(f"give only one of {' and '.join(shapes)}")
        if self.sine is not None and self.sine.amplitude > self.rate:
            raise ValueError("the sine's amplitude is larger than the rate, which would go below 0")
        if self.when_busy == "skip" and self.queue_max is not None:
            raise ValueError('queue_max is for when_busy = "queue"')
        return self

    @model_validator(mode="after")
    def _steps_in_order(self) -> Arrival:
        for before, after in zip(self.steps, self.steps[1:], strict=False):
            if after.at_ms < before.end_ms or after.at_ms == before.at_ms:
                raise ValueError(
                    f"the step at {format_duration(after.at_ms)} begins before the one at"
                    f" {format_duration(before.at_ms)} has reached its rate"
                )
        return self


def _closed_only(value: Any) -> Any:
    if value != "closed":
        raise ValueError(
            f'"{value}" is neither "closed" nor a rate such as {{ rate = 500 }}'
            if isinstance(value, str)
            else f"{value} is no arrival: write {{ rate = {value} }}"
        )
    return value


def _kind(value: Any) -> str:
    return "arrival[open]" if isinstance(value, dict | Arrival) else "arrival[closed]"


ArrivalSpec = Annotated[
    Annotated[Literal["closed"], BeforeValidator(_closed_only), Tag("arrival[closed]")]
    | Annotated[Arrival, Tag("arrival[open]")],
    Discriminator(_kind),
]
"""``"closed"``, or a table with a rate."""
