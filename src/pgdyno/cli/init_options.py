"""pgbench's options for creating its tables, and their keys in a spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from pgdyno.errors import UsageError

INIT_OPTIONS = [
    click.option(
        "-i",
        "--initialize",
        is_flag=True,
        help="Create pgbench's tables in your database; existing ones are dropped first.",
    ),
    click.option(
        "-I",
        "--init-steps",
        "init_steps",
        metavar="STEPS",
        help="Initialization steps, from dtgGvpf (default dtgvp).",
    ),
    click.option(
        "-F",
        "--fillfactor",
        type=click.IntRange(10, 100),
        metavar="N",
        help="Fillfactor of the tables.",
    ),
    click.option(
        "--partitions",
        type=click.IntRange(0),
        metavar="N",
        help="Number of partitions of pgbench_accounts, or of entity-resolution's large tables.",
    ),
    click.option(
        "--partition-method",
        type=click.Choice(["range", "hash"]),
        help="Partitioning method (default range).",
    ),
    click.option("--foreign-keys", is_flag=True, help="Create foreign keys between the tables."),
    click.option("--tablespace", metavar="NAME", help="Tablespace of the tables."),
    click.option("--index-tablespace", metavar="NAME", help="Tablespace of the primary keys."),
    click.option("--unlogged-tables", is_flag=True, help="Create unlogged tables."),
    click.option("-n", "--no-vacuum", is_flag=True, help="Do not vacuum before the load."),
    click.option(
        "-v",
        "--vacuum-all",
        is_flag=True,
        help="Vacuum and analyze pgbench's tables before the load.",
    ),
]


def init_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a spec's table ``workload`` that these options set."""
    init = {
        "steps": given["init_steps"],
        "fillfactor": given["fillfactor"],
        "partitions": given["partitions"],
        "partition_method": given["partition_method"],
        "foreign_keys": given["foreign_keys"] or None,
        "tablespace": given["tablespace"],
        "index_tablespace": given["index_tablespace"],
        "unlogged_tables": given["unlogged_tables"] or None,
    }
    init = {name: value for name, value in init.items() if value is not None}
    if given["no_vacuum"] and given["vacuum_all"]:
        raise UsageError("-n and -v exclude each other", code="contradiction")
    vacuum = "none" if given["no_vacuum"] else "all" if given["vacuum_all"] else None
    return {"init": init or None, "initialize": given["initialize"] or None, "vacuum": vacuum}
