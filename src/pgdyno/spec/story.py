"""A story: chapters that run one after the other on the same spec, with their expected outcome.

A chapter is a comparison of the spec with a changed one, or a drill of the changed spec.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from pgdyno.spec._base import Part, PositiveDuration, SettingValue

Ending = Literal[
    "better", "worse", "no difference", "clean", "lost", "refused", "corrupt", "harmed"
]
"""Outcome of a chapter; harmed: lost, refused or corrupt."""
OF_COMPARISONS = ("better", "worse", "no difference")


def _key_text(value: Any) -> str:
    """Return the value of a dotted key as ``--vary`` accepts it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("the value of a key must be a string, a number or a Boolean")


KeyValue = Annotated[str, BeforeValidator(_key_text)]


class Chapter(Part):
    """A comparison or a drill."""

    title: str = Field(min_length=1, max_length=120)
    remark: str = Field("", description="Explanation, shown with the outcome")
    vary: dict[str, KeyValue] = Field(
        default_factory=dict, description="Keys of the spec to change, such as disk.wal"
    )
    settings: dict[str, SettingValue] = Field(
        default_factory=dict, description="Settings of the server to change"
    )
    budget_ms: PositiveDuration = Field(
        30_000, alias="budget", description="Time for the comparison"
    )
    fault: str | None = Field(None, description="Fault of a drill; the chapter is then a drill")
    variant: str | None = Field(None, description="Variant of the fault")
    cuts: int = Field(1, ge=1, le=100_000, description="Number of cuts of the drill")
    expect: Ending | dict[str, Ending] | None = Field(
        None, description="Expected outcome; for a fault with variants, a table of outcomes"
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Chapter:
        if self.fault is None:
            if not (self.vary or self.settings):
                raise ValueError(
                    "a chapter needs vary or settings (a comparison) or fault (a drill)"
                )
            if self.variant is not None or self.cuts != 1:
                raise ValueError("variant and cuts can only be used with fault")
        endings = self.expect.values() if isinstance(self.expect, dict) else [self.expect]
        for ending in endings:
            if ending is not None and (ending in OF_COMPARISONS) != (self.fault is None):
                kind = "comparison" if self.fault is None else "drill"
                raise ValueError(f'expect: "{ending}" is not an outcome of a {kind}')
        return self
