"""Workloads: built-in mixes, the user's pgbench scripts, and the tables they run on."""

from pgdyno.workload._database_choice import own_database_needed
from pgdyno.workload._loading import load_mix, load_workloads, unset_variables
from pgdyno.workload._model import Tables, WeightedScript, Workload
from pgdyno.workload._persistence import make_logged, make_unlogged
from pgdyno.workload._setup import read_setup
from pgdyno.workload._texts import with_texts
from pgdyno.workload.prepare import Prepared, prepare

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
