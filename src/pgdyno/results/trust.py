"""The check whether a result can be trusted."""

from __future__ import annotations

from typing import Protocol

from pgdyno.errors import TrustError


class Trusted(Protocol):
    """A result with the reasons to distrust it."""

    @property
    def run_file(self) -> str:
        """Its run file."""

    @property
    def distrust(self) -> tuple[str, ...]:
        """The reasons why its figures cannot be trusted."""


def check_trust(result: Trusted) -> None:
    """Raise :class:`TrustError` if the measurement cannot be trusted."""
    if result.distrust:
        raise TrustError(
            f"the measurement cannot be trusted: {'; '.join(result.distrust)}",
            code="not-trustworthy",
            hint=f"pgdyno report {result.run_file} shows what was measured",
        )
