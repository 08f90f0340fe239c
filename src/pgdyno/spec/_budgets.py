"""The tables ``investigate`` and ``price`` of a spec: time, and what may be lost."""

from __future__ import annotations

from pydantic import Field

from pgdyno.spec._base import Part, PositiveDuration
from pgdyno.spec.durability import DurabilityClass


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
        None,
        alias="budget",
        description="Time for gains and drills (default: 75 s per candidate or more)",
    )
