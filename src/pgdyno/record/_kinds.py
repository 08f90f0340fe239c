"""Kinds of slices and of trials, and decisions on changes: the texts in a run file, and what they
mean."""

from __future__ import annotations

from enum import StrEnum


class SliceKind(StrEnum):
    """The purpose of a slice."""

    RUN = "run"
    """The measurement of a single run, a soak or a check."""
    RAMP = "ramp"
    """The beginning of a load, before the measurement."""
    BASELINE = "baseline"
    """The state before the trials of an investigation."""
    NOISE = "noise"
    """A slice of which all others are identical."""
    TRIAL = "trial"
    """A side of a pair."""
    POINT = "point"
    """A step of a search."""
    HOLD = "hold"
    """The long measurement at the answer of a search."""
    STORM = "storm"
    """Many clients that connect at once."""
    YOUNG = "young"
    """A server before it is made old."""
    AGE = "age"
    """A server that is old."""
    RECOVERY = "recovery"
    """A server on the way back from old age."""
    BEFORE = "before"
    """The load before the state that branches begin with."""
    LEAD = "lead"
    """The beginning of a branch, before its measurement."""
    MATCH = "match"
    """A step of the search for a rate at which a branch matches."""
    BRANCH = "branch"
    """The measurement of a branch."""
    WAL = "wal"
    """The WAL of one version and then of the other."""

    @property
    def is_measured(self) -> bool:
        """True if figures are made of it."""
        return self is not SliceKind.RAMP

    @property
    def may_fail(self) -> bool:
        """True if failures in it say nothing against the measurement: a search goes past the point
        at which transactions fail, failures are the subject of a storm and of an old server, and
        where only WAL is counted the sides are not compared."""
        return self in (SliceKind.RAMP, SliceKind.POINT, SliceKind.WAL) or not self.may_be_void

    @property
    def may_be_void(self) -> bool:
        """True if it decides nothing where the server was away or clients were not connected. A
        ramp decides nothing anyway, a storm is about clients that are not connected, and an old
        server about writes that are refused."""
        exempt = (SliceKind.RAMP, SliceKind.STORM, SliceKind.AGE, SliceKind.RECOVERY)
        return self not in exempt


class TrialKind(StrEnum):
    """The purpose of a trial."""

    NOISE = "noise"
    """Identical slices, which show the noise floor."""
    COMPARE = "compare"
    """The question of ``pgdyno compare``."""
    LINE = "line"
    """Lines of a profile, taken back."""
    LEVELLED = "levelled"
    """Two versions with the same defaults."""
    SHORTEST = "shortest"
    """The shortest profile with the same effect."""
    PRICE = "price"
    """A candidate of a price list."""
    REMEDY = "remedy"
    """A remedy that a finding suggests."""
    RECHECK = "recheck"
    """A kept remedy, taken back."""
    TOTAL = "total"
    """All kept remedies together."""


class TrialDecision(StrEnum):
    """The decision of an investigation on a change."""

    KEPT = "kept"
    REJECTED = "rejected"
    OFFERED = "offered"
    """It gains, and is not kept: it may lose more than is allowed."""
    STILL_EARNS = "still earns"
    """A kept change that gains when everything else is in force."""
    TAKEN_BACK = "taken back"
    """A kept change that no longer gains."""
    INCONCLUSIVE = "inconclusive"
    NOT_MEASURED = "not measured"
    NOT_MEASURABLE = "not measurable"
    """The budget is too short for its slices."""

    @property
    def was_measured(self) -> bool:
        """True if the change was tried."""
        return self not in (TrialDecision.NOT_MEASURED, TrialDecision.NOT_MEASURABLE)

    @property
    def gains(self) -> bool:
        """True if the change is worth its price."""
        gaining = (TrialDecision.KEPT, TrialDecision.OFFERED, TrialDecision.STILL_EARNS)
        return self in gaining


class WhyUnusable(StrEnum):
    """The reason why an index cannot be used for a comparison."""

    INVALID = "invalid"
    """Its CREATE INDEX or REINDEX did not finish."""
    PREDICATE = "predicate"
    """It is partial, and the condition does not imply its predicate."""
    METHOD = "method"
    """It finds pages or elements, not rows in the order of their keys."""
    LATER_COLUMN = "later column"
    """The column is in it, behind another one that is not compared."""
    OF_EXPRESSION = "of expression"
    """It is on an expression of the column that is compared."""
    CAST = "cast"
    """The column is cast to the type of the other side."""
    EXPRESSION = "expression"
    """The column is within an expression."""
    VOLATILE = "volatile"
    """The other side calls a volatile function, once for each row."""
    COLLATION = "collation"
    """The comparison has another collation."""
    OPERATOR_CLASS = "operator class"
    """Its operator class does not know the operator, as that of LIKE."""


class Suspicion(StrEnum):
    """The reason why a table or an index may cost more than it need."""

    UNREAD = "unread"
    """Statements write it, and no scan reads it."""
    PENDING = "pending list"
    """It keeps new entries in a list, which each scan reads as a whole (GIN with fastupdate)."""
    BLOATED = "bloated"
    """It has many more pages than its rows need."""
