"""Workloads: built-in mixes, the user's pgbench scripts, and the tables they run on."""

from pgdyno.workload.loading import load_mix, load_workloads, unset_variables
from pgdyno.workload.model import Tables, WeightedScript, Workload
from pgdyno.workload.persistence import make_logged, make_unlogged
from pgdyno.workload.place import own_database_needed
from pgdyno.workload.prepare import Prepared, prepare
from pgdyno.workload.setup import read_setup
from pgdyno.workload.texts import with_texts

__all__ = [
    "Prepared",
    "Tables",
    "WeightedScript",
    "Workload",
    "load_mix",
    "load_workloads",
    "make_logged",
    "make_unlogged",
    "own_database_needed",
    "prepare",
    "read_setup",
    "unset_variables",
    "with_texts",
]
