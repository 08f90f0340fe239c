"""Limit of failed transactions above which a measurement is not trusted: a share or a number."""

from __future__ import annotations

import re
from typing import Annotated, Any

from msgspec import Struct
from pydantic import BeforeValidator, WithJsonSchema

DEFAULT = "1%"
_LIMIT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(%?)")


class FailuresMax(Struct, frozen=True):
    """A limit of failed transactions: exactly one of ``share`` and ``count``."""

    share: float | None = None
    """Share of the finished transactions, 0 to 1."""
    count: int | None = None

    @classmethod
    def parse(cls, text: str) -> FailuresMax:
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
