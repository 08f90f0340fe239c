"""A story: chapters that run one after the other on the same spec, with their expected outcome.

A chapter is a comparison of the spec with a changed one, a drill of the changed spec, or a run of
it with its diagnosis.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from pgdyno.spec._base import PositiveDuration, SettingValue, SpecTable

Ending = Literal[
    "better", "worse", "no difference", "clean", "lost", "refused", "corrupt", "harmed",
    "found", "cleared",
]  # fmt: skip
"""Outcome of a chapter; harmed: lost, refused or corrupt; found and cleared: of a finding."""
OF_COMPARISONS = ("better", "worse", "no difference")
OF_RUNS = ("found", "cleared")


def _key_text(value: Any) -> str:
    """Return the value of a dotted key as ``--vary`` accepts it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("the value of a key must be a string, a number or a Boolean")


KeyValue = Annotated[str, BeforeValidator(_key_text)]


class Chapter(SpecTable):
    """A comparison, a drill or a run."""

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
    run: bool = Field(False, description="Run the changed spec once, with its diagnosis")
    variant: str | None = Field(None, description="Variant of the fault")
    cuts: int = Field(1, ge=1, le=100_000, description="Number of cuts of the drill")
    expect: Ending | dict[str, Ending] | None = Field(
        None,
        description="Expected outcome; for a fault with variants, a table of outcomes; for a run, a"
        " table of findings",
    )

    @property
    def kind(self) -> Literal["comparison", "drill", "run"]:
        """The kind of the chapter."""
        if self.run:
            return "run"
        return "comparison" if self.fault is None else "drill"

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.run and self.fault is not None:
            raise ValueError("a chapter is a run or a drill (fault), not both")
        if self.kind == "comparison" and not (self.vary or self.settings):
            raise ValueError(
                "a chapter needs vary or settings (a comparison), fault (a drill) or run = true"
            )
        if self.fault is None and (self.variant is not None or self.cuts != 1):
            raise ValueError("variant and cuts can only be used with fault")
        if self.run and self.expect is not None and not isinstance(self.expect, dict):
            raise ValueError(
                'expect: a run needs a table of findings, such as { pooler = "found" }'
            )
        endings = self.expect.values() if isinstance(self.expect, dict) else [self.expect]
        for ending in endings:
            if ending is not None and _kind_of(ending) != self.kind:
                raise ValueError(f'expect: "{ending}" is not an outcome of a {self.kind}')
        return self


def _kind_of(ending: str) -> str:
    """Return the kind of chapter that an outcome is of."""
    if ending in OF_RUNS:
        return "run"
    return "comparison" if ending in OF_COMPARISONS else "drill"
