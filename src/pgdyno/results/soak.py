"""The result of ``pgdyno soak``."""

from typing import Literal

from pydantic import ConfigDict

from pgdyno.record.part import Part
from pgdyno.results.run import RunResult


class Gap(Part):
    """Time in which pgdyno did not run"""

    at_s: float
    lasted_s: float


class VoidSlice(Part):
    """A slice that is in no figure but those of the whole run"""

    at_s: float
    lasted_s: float
    reason: str


class NamedChange(Part):
    """A sudden change that was named while the load ran"""

    at_s: float
    sentence: str


class ValidityCheck(Part):
    """A check of what the soak was to measure"""

    name: Literal["generator", "errors", "connections", "ledger"]
    passed: bool | None
    """null: not measured"""
    sentence: str


class SoakResult(RunResult):
    model_config = ConfigDict(title="pgdyno soak --format json")

    planned_s: float
    """Time under load that was asked for"""
    measured_s: float
    """Time under load, without gaps"""
    ended: Literal["planned", "disk"]
    """disk: before the time was over, as little space was left"""
    data_kept: str | None
    """Directory in which the data of a server that pgdyno started stay; null: a server of yours"""
    gaps: tuple[Gap, ...]
    """Each was followed by a new connection of all clients, and a new slice"""
    void_slices: tuple[VoidSlice, ...]
    void_share: float
    """Share of the time under load that is in void slices; figures are over the others"""
    void_share_max: float
    """Above it, the soak is not trusted"""
    changes_named: tuple[NamedChange, ...]
    validity: tuple[ValidityCheck, ...]
