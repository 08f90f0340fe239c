"""The outcome of the drills of a change, in the results of price and investigate."""

from typing import Literal

from pgdyno.record.part import Number, Part


class Drilled(Part):
    """The losses under one fault"""

    fault: str
    variant: str
    """'' if variants do not have their own prices"""
    drilled: Literal[True]
    promised: bool
    """false for a rescue that is not documented to restore all acknowledged commits"""
    cuts: int
    happened: int
    """Cuts whose fault is proved"""
    acked: int
    """Acknowledged commits in all cuts"""
    lost_median: Number | None
    lost_max: int | None
    lost_ms_median: float | None
    lost_ms_max: float | None
    lost: int
    """Cuts that lost commits and nothing else"""
    corrupt: int
    refused: int
    clean: int
    upper_bound: float | None
    """95 % upper bound of the share of such crashes that do harm"""
    bound_ms: Number | None
    """The documented bound; null: none"""
    recovery_s_median: float | None
    recovery_s_max: float | None
    worse_than_bound: int
    """Cuts that lost more than documented"""
    broke_off: str | None = None
    """The reason why the drill ended early"""


class NotDrilled(Part):
    """The reason why a fault was not drilled"""

    fault: str
    variant: Literal[""]
    drilled: Literal[False]
    why: str


Loss = Drilled | NotDrilled
