"""Base types of the spec: strict tables, durations with units, values of PostgreSQL settings.

Durations are written with PostgreSQL's units (``"10s"``) and kept in milliseconds, or microseconds
where the attribute's name says so; the key in the file has no unit in its name.
"""

from typing import Annotated, Any, Self, cast, get_args, get_origin

from msgspec import Struct
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import PydanticCustomError

from pgdyno.spec.units import (
    format_duration,
    format_duration_us,
    parse_duration_ms,
    parse_duration_us,
    parse_share,
)

CLIENTS_MAX = 100_000
DURATION_MS_MAX = 366 * 86_400_000


class SpecKey(Struct, frozen=True):
    """A key of a table in a message, with a value if it is about one: ``kind = "pgbouncer"``."""

    name: str
    value: str | None = None

    def __str__(self) -> str:
        return self.name if self.value is None else f'{self.name} = "{self.value}"'

    def as_option(self, option: str | None) -> str:
        """Return the text with the option that sets the key, if there is one."""
        if option is None:
            return str(self)
        return option if self.value is None else f"{option} {self.value}"


class Misfit(ValueError):
    """Keys of a table that do not go together; the message may name options in their place."""

    def __init__(self, *parts: str | SpecKey) -> None:
        super().__init__("".join(map(str, parts)))
        self.parts = parts


class SpecTable(BaseModel):
    """A table of the spec: immutable, and unknown keys are errors."""

    model_config = ConfigDict(
        extra="forbid",
        populate_by_name=True,
        frozen=True,
        allow_inf_nan=False,
        # The validator of a spec includes those of its tables.
        defer_build=True,
    )

    @classmethod
    def default(cls) -> Self:
        """Return a table of a spec with the default of each key. Defaults are valid: nothing is
        validated, so that no validator of the table alone is built."""
        return cast("Self", cls.model_construct())

    @field_validator("*", mode="before")
    @classmethod
    def _no_boolean_for_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Reject a Boolean where a number is expected; pydantic would accept true as 1."""
        assert info.field_name is not None
        field = cls.model_fields[info.field_name]
        if any(isinstance(each, BeforeValidator) for each in field.metadata):
            return value  # has its own check
        if _is_number(field.annotation) and _has_boolean(value):
            raise PydanticCustomError("int_type", "expected an integer")
        return value


def _is_number(annotation: Any) -> bool:
    """True if the type accepts numbers, also in a list, and no Booleans."""
    types = _types_within(annotation)
    return bool(types & {int, float}) and bool not in types


def _types_within(annotation: Any) -> set[Any]:
    if get_origin(annotation) is None:
        return {annotation}
    return set().union(*map(_types_within, get_args(annotation)))


def _has_boolean(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, list) and any(map(_has_boolean, value)))


def _bounded(duration_ms: int) -> None:
    if duration_ms > DURATION_MS_MAX:
        raise ValueError("must not be longer than a year")


def _positive(duration: int) -> int:
    if duration <= 0:
        raise ValueError("must be longer than 0")
    return duration


def _duration(value: Any) -> int:
    duration_ms = parse_duration_ms(value)
    _bounded(duration_ms)
    return duration_ms


def _positive_duration(value: Any) -> int:
    return _positive(_duration(value))


def _positive_duration_us(value: Any) -> int:
    duration_us = parse_duration_us(value)
    _bounded(duration_us // 1000)
    return _positive(duration_us)


# One validator each: pydantic inspects the signature of every one, for every key.
_AS_TEXT = (
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "examples": ["10s", "200ms", "5min"]}),
)
Duration = Annotated[int, BeforeValidator(_duration), *_AS_TEXT]
PositiveDuration = Annotated[int, BeforeValidator(_positive_duration), *_AS_TEXT]
PositiveDurationUs = Annotated[
    int,
    BeforeValidator(_positive_duration_us),
    PlainSerializer(format_duration_us, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "examples": ["50ms", "500us"]}),
]

Share = Annotated[
    float,
    BeforeValidator(parse_share),
    WithJsonSchema({"type": ["string", "number"], "examples": ["33%", 0.33]}),
]


def _setting_text(value: Any) -> str:
    """Return a server setting as PostgreSQL spells it; TOML's Booleans and numbers are accepted."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("a setting must be a string, a number or a Boolean")


SettingValue = Annotated[
    str,
    BeforeValidator(_setting_text),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]
