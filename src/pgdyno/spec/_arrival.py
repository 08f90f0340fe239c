"""Arrival of transactions: after the previous one in a closed loop, at a rate in an open loop.

An open loop has one schedule for all clients of its group: a rate, at most one shape that changes
the rate over time, and a rule for transactions that are due while every client is busy.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from pgdyno.spec._base import Duration, Misfit, PositiveDuration, SpecKey, SpecTable
from pgdyno.spec.units import format_duration

RATE_MAX = 10_000_000.0
QUEUE_MAX = 1_000_000
_SHAPES = ("steps", "burst", "sine", "day")


def _number_of_rate(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise ValueError(
            f'"{value}" is not a rate: expected a number of transactions per second, such as 500'
        )
    return value


Rate = Annotated[float, BeforeValidator(_number_of_rate), Field(gt=0, le=RATE_MAX)]
RateOrNone = Annotated[float, BeforeValidator(_number_of_rate), Field(ge=0, le=RATE_MAX)]


class RateStep(SpecTable):
    """A new rate from ``at`` on (since the start of the load), reached over ``ramp``."""

    at_ms: PositiveDuration = Field(alias="at")
    rate: RateOrNone
    ramp_ms: Duration = Field(0, alias="ramp")

    @property
    def end_ms(self) -> int:
        """Time at which its rate is reached."""
        return self.at_ms + self.ramp_ms


class Burst(SpecTable):
    """Another rate for ``length``, repeated every ``every``."""

    every_ms: PositiveDuration = Field(alias="every")
    length_ms: PositiveDuration = Field(alias="length")
    rate: RateOrNone

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.length_ms >= self.every_ms:
            raise ValueError("a burst's length must be shorter than every")
        return self


class Sine(SpecTable):
    """A sine wave around the rate."""

    amplitude: Rate
    period_ms: PositiveDuration = Field(alias="period")


def _has_load(factors: list[float]) -> list[float]:
    if max(factors) == 0:
        raise ValueError("at least one factor must be above 0")
    return factors


class Day(SpecTable):
    """Factors of the rate at each of 24 hours, interpolated linearly."""

    factors: Annotated[
        list[Annotated[float, Field(ge=0, le=1000)]],
        Field(min_length=24, max_length=24),
        AfterValidator(_has_load),
    ]
    period_ms: PositiveDuration = Field(
        86_400_000, alias="period", description="Duration of the 24 hours"
    )


class Arrival(SpecTable):
    """An open loop: transactions are due at a rate, whether or not earlier ones have ended."""

    rate: Rate = Field(description="Transactions per second, over all clients of the group")
    process: Literal["poisson", "constant"] = "poisson"
    steps: list[RateStep] = Field(default_factory=list)
    burst: Burst | None = None
    sine: Sine | None = None
    day: Day | None = None
    when_busy: Literal["queue", "skip"] = Field(
        "queue", description="What happens to a transaction that is due while no client is free"
    )
    queue_max: int | None = Field(
        None,
        ge=1,
        le=1_000_000_000,
        description=f"Longest queue, beyond which transactions are skipped (default {QUEUE_MAX:,})",
    )

    @property
    def shape(self) -> str | None:
        """Name of the shape that the rate follows; ``None`` for a constant rate."""
        return next((name for name in _SHAPES if getattr(self, name)), None)

    def at_speed(self, factor: float) -> Self:
        """Return the same course with rates this many times as high. Raises ValueError for rates
        that are too high."""
        steps = [each.model_copy(update={"rate": factor * each.rate}) for each in self.steps]
        burst = self.burst and self.burst.model_copy(update={"rate": factor * self.burst.rate})
        sine = self.sine and self.sine.model_copy(
            update={"amplitude": factor * self.sine.amplitude}
        )
        rate = factor * self.rate
        if max(rate, burst.rate if burst else 0, *(each.rate for each in steps)) > RATE_MAX:
            raise ValueError(f"a rate of more than {RATE_MAX:,.0f} transactions per second")
        return self.model_copy(update={"rate": rate, "steps": steps, "burst": burst, "sine": sine})

    @model_validator(mode="after")
    def _one_shape(self) -> Self:
        shapes = [name for name in _SHAPES if getattr(self, name)]
        if len(shapes) > 1:
            raise ValueError(f"{' and '.join(shapes)} cannot be used together")
        if self.sine is not None and self.sine.amplitude > self.rate:
            raise ValueError(
                "sine.amplitude is larger than rate, so the rate would become negative"
            )
        if self.when_busy == "skip" and self.queue_max is not None:
            raise Misfit(
                SpecKey("queue_max"), " can only be used with ", SpecKey("when_busy", "queue")
            )
        return self

    @model_validator(mode="after")
    def _steps_in_order(self) -> Self:
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
            else f"{value} is not an arrival; for a rate write {{ rate = {value} }}"
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
