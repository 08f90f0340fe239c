"""A story: chapters that are carried out one after the other on the same spec, and what to expect.

A chapter is a comparison of the spec with itself under a change, or a drill of the spec with that
change. The spec's text tells the story; the chapters make it happen again.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from pgdyno.spec._base import Part, PositiveDuration, SettingValue

Ending = Literal[
    "better", "worse", "no difference", "clean", "lost", "refused", "corrupt", "harmed"
]
"""How a chapter may end; harmed: lost, refused or corrupt."""
OF_COMPARISONS = ("better", "worse", "no difference")


def _key_text(value: Any) -> str:
    """The value of a dotted key as ``--vary`` takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("the value of a key is a string, a number or a boolean")


KeyValue = Annotated[str, BeforeValidator(_key_text)]


class Chapter(Part):
    """One thing to do."""

    title: str = Field(min_length=1, max_length=120)
    remark: str = Field("", description="What to make of it, shown with what came of it")
    vary: dict[str, KeyValue] = Field(
        default_factory=dict, description="Keys of the spec that differ, as disk.wal"
    )
    settings: dict[str, SettingValue] = Field(
        default_factory=dict, description="Settings of the server that differ"
    )
    budget_ms: PositiveDuration = Field(30_000, alias="budget", description="Time for a comparison")
    fault: str | None = Field(None, description="Makes the chapter a drill: what is broken")
    variant: str | None = Field(None, description="Of the fault")
    cuts: int = Field(1, ge=1, le=100_000, description="How often")
    expect: Ending | dict[str, Ending] | None = Field(
        None, description="How it has to end; for a fault with variants a table of them"
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Chapter:
        if self.fault is None:
            if not (self.vary or self.settings):
                raise ValueError("a comparison wants vary or settings, a drill a fault")
            if self.variant is not None or self.cuts != 1:
                raise ValueError("variant and cuts are for a drill, which has a fault")
        endings = self.expect.values() if isinstance(self.expect, dict) else [self.expect]
        for ending in endings:
            if ending is not None and (ending in OF_COMPARISONS) != (self.fault is None):
                kind = "comparison" if self.fault is None else "drill"
                raise ValueError(f'expect: a {kind} does not end "{ending}"')
        return self
