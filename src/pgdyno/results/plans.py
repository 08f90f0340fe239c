"""The part of a result that says whose plan differs, of statements that two sides have."""

from __future__ import annotations

from pgdyno.record.part import Part


class PlanForm(Part):
    """The form of a plan"""

    nodes: str
    """Its nodes from the top, with their tables and indexes; those below a node stand in
    parentheses"""
    is_generic: bool | None
    """Made for any values, as prepared statements may have it; null: not prepared"""
    mean_ms: float | None
    """Mean time of the statement under load; null: not measured"""


class PlanPair(Part):
    """A statement whose plan has another form on the other side"""

    group: str
    script: str
    statement: str
    a: PlanForm
    b: PlanForm


class ComparedPlans(Part):
    """Plans of both sides, looked at beside the load"""

    statements: int
    """Statements with a plan on both sides"""
    without_plan: int
    """Statements of both sides that have no plan on at least one"""
    differing: tuple[PlanPair, ...]
    """Those whose plans differ in form: in nodes, tables, indexes, strategies, or the kinds of
    conditions"""
