"""Workloads: built-in mixes, the user's pgbench scripts, and the tables they run on."""

from pgdyno.workload.loading import load_workload
from pgdyno.workload.model import Tables, WeightedScript, Workload
from pgdyno.workload.prepare import prepare

__all__ = [
    "Tables",
    "WeightedScript",
    "Workload",
    "load_workload",
    "prepare",
]
