"""Execution plans of the load's statements, asked of the server, and the time that statements take
with and without a change."""

from pgdyno.plans.tree import Node, Plan, Trigger, fingerprint, read_plan

__all__ = ["Node", "Plan", "Trigger", "fingerprint", "read_plan"]
