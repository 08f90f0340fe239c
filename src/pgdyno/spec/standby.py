"""The standbys of an embedded server: how many, what commits wait for, how far away they are."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from pgdyno.spec._base import Duration, Part
from pgdyno.spec.units import format_duration

StandbyMode = Literal["async", "remote_write", "on", "remote_apply", "local"]
STANDBYS_MAX = 4
# What the mode sets on the primary, and nobody else may set beside it.
MODE_SETTINGS = ("synchronous_commit", "synchronous_standby_names")


class StandbySpec(Part):
    """Streaming standbys, and what commits on the primary wait for."""

    count: int = Field(0, ge=0, le=STANDBYS_MAX, description="Streaming standbys")
    mode: StandbyMode = Field(
        "async",
        description="What a commit waits for: nothing (async), or synchronous_commit with these"
        " standbys named; local names them and does not wait",
    )
    quorum: int = Field(
        1, ge=1, le=STANDBYS_MAX + 1, description="How many receivers a commit waits for (ANY n)"
    )
    delay_ms: Duration = Field(
        0, alias="delay", description="Of the replication connection, each way"
    )
    receivewal: bool = Field(
        False, description="Also pg_receivewal --synchronous, as one more receiver"
    )

    @property
    def receivers(self) -> int:
        """How many there are that commits could wait for."""
        return self.count + self.receivewal

    def settings(self, names: str = "*") -> dict[str, str]:
        """What the mode is in the primary's settings; ``names`` are those of the receivers."""
        if not self.receivers or self.mode == "async":
            return {}
        return {
            "synchronous_commit": self.mode,
            "synchronous_standby_names": f"ANY {self.quorum} ({names})",
        }

    @property
    def waits(self) -> bool:
        """Whether commits wait for a receiver."""
        return self.receivers > 0 and self.mode not in ("async", "local")

    @model_validator(mode="after")
    def _can_be_had(self) -> StandbySpec:
        if self.receivewal and self.mode == "remote_apply":
            raise ValueError(
                "receivewal applies nothing, so that with mode = remote_apply every commit would"
                " wait for ever; mode = on waits for its flush"
            )
        if self.receivers and self.quorum > self.receivers:
            raise ValueError(
                f"quorum = {self.quorum} of {self.receivers} receivers can never be reached"
            )
        return self


def in_words(spec: StandbySpec) -> str:
    """As ``2 standbys, commits wait for 1 (on)``."""
    parts = []
    if spec.count:
        parts.append("a standby" if spec.count == 1 else f"{spec.count} standbys")
    if spec.receivewal:
        parts.append("pg_receivewal")
    if not parts:
        return "no standby"
    delay = f", each way {format_duration(spec.delay_ms)}" if spec.delay_ms else ""
    whom = f"{spec.quorum} of them" if spec.receivers > 1 else "it"
    waits = f"commits wait for {whom} ({spec.mode})" if spec.waits else "no commit waits for it"
    return f"{' and '.join(parts)}{delay}: {waits}"
