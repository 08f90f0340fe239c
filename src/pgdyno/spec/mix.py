"""Script mixes: a built-in workload by its name, or scripts and requests with weights."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from pgdyno.spec._base import Part

BUILTIN_SCRIPTS = (
    *("tpcb-like", "simple-update", "select-only", "mixed", "business", "entity-resolution"),
    "ingest",
)
"""Built-in workloads. ``mixed`` is itself a mix, and ``ingest`` depends on keys of the spec: they
cannot be part of another mix."""
MIXABLE_SCRIPTS = (
    *("tpcb-like", "simple-update", "select-only", "business", "business-browse"),
    *("business-payment", "business-stream", "business-desk", "entity-resolution"),
)
DEFAULT_SCRIPT = "tpcb-like"


class ScriptPart(Part):
    """A script of a mix: a file or a built-in one, and its weight."""

    file: str | None = None
    text: str | None = Field(
        None, description="Content of file, which is then not read (set in run files)"
    )
    builtin: str | None = Field(None, description=f"One of {', '.join(MIXABLE_SCRIPTS)}")
    request: str | None = Field(
        None,
        pattern=r"^/[!-~]*$",
        description="With the table http: a path that is requested, redirects followed",
    )
    weight: int = Field(1, ge=0, le=1_000_000)

    @model_validator(mode="after")
    def _one_source(self) -> ScriptPart:
        if sum(source is not None for source in (self.file, self.builtin, self.request)) != 1:
            raise ValueError("a script needs one of file, builtin and request")
        if self.text is not None and self.file is None:
            raise ValueError("text can only be used with file")
        if self.builtin is not None and self.builtin not in MIXABLE_SCRIPTS:
            raise ValueError(f'"{self.builtin}" is not one of {", ".join(MIXABLE_SCRIPTS)}')
        return self


def _known(script: str) -> str:
    if script not in BUILTIN_SCRIPTS:
        raise ValueError(
            f'"{script}" is not one of {", ".join(BUILTIN_SCRIPTS)}'
            ' (for a file, write [{ file = "…", weight = 1 }])'
        )
    return script


def _with_weight(parts: list[ScriptPart]) -> list[ScriptPart]:
    if sum(part.weight for part in parts) == 0:
        raise ValueError("at least one script needs a weight above 0")
    return parts


def _kind(value: Any) -> str:
    return "script[parts]" if isinstance(value, list | tuple) else "script[name]"


ScriptMix = Annotated[
    Annotated[str, AfterValidator(_known), Tag("script[name]")]
    | Annotated[list[ScriptPart], AfterValidator(_with_weight), Tag("script[parts]")],
    Discriminator(_kind),
]
"""The scripts that clients execute."""


def runs_builtin(mix: str | list[ScriptPart], builtin: str) -> bool:
    """Return whether a mix is this built-in workload, or has it as a part."""
    if isinstance(mix, str):
        return mix == builtin
    return any(part.builtin == builtin for part in mix)
