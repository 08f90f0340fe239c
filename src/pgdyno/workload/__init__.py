"""Workloads: built-in mixes, the user's pgbench scripts, and the tables they run on."""

from pgdyno.workload._database_choice import own_database_needed
from pgdyno.workload._entities import repartition
from pgdyno.workload._files import read_lines, read_urls, with_csv
from pgdyno.workload._found import BUSINESS_COLUMNS, PGBENCH_COLUMNS, schema_of
from pgdyno.workload._loading import (
    ENGINE_VARIABLES,
    load_mix,
    load_workloads,
    unset_variables,
    with_texts,
)
from pgdyno.workload._model import Tables, WeightedScript, Workload
from pgdyno.workload._own import CHECKED, OWN, consistency
from pgdyno.workload._own_tables import Prepared
from pgdyno.workload._persistence import make_logged, make_unlogged
from pgdyno.workload.prepare import prepare

__all__ = [
    "BUSINESS_COLUMNS",
    "CHECKED",
    "ENGINE_VARIABLES",
    "OWN",
    "PGBENCH_COLUMNS",
    "Prepared",
    "Tables",
    "WeightedScript",
    "Workload",
    "consistency",
    "load_mix",
    "load_workloads",
    "make_logged",
    "make_unlogged",
    "own_database_needed",
    "prepare",
    "read_lines",
    "read_urls",
    "repartition",
    "schema_of",
    "unset_variables",
    "with_csv",
    "with_texts",
]
