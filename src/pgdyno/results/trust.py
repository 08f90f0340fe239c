"""The error that a result which cannot be trusted ends its command with."""

from __future__ import annotations

from typing import Protocol

from pgdyno.errors import TrustError


class Trusted(Protocol):
    """A result that says whether its figures can be trusted."""

    @property
    def run_file(self) -> str:
        """The run file that it comes from."""

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
