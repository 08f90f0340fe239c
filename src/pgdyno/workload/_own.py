"""The workloads for which pgdyno makes tables that the load fills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pgdyno.workload._builtin_tables import BUSINESS, INGEST
from pgdyno.workload._entities import ENTITIES
from pgdyno.workload._model import Tables
from pgdyno.workload._own_tables import OwnTables
from pgdyno.workload._tpcc import TPCC

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control
    from pgdyno.workload._own_tables import Consistency

OWN: Mapping[Tables, OwnTables] = {
    Tables.BUSINESS: BUSINESS,
    Tables.ENTITIES: ENTITIES,
    Tables.INGEST: INGEST,
    Tables.TPCC: TPCC,
}
"""By the kind of tables. Those of pgbench and of ``mixed`` are made in other ways."""
CHECKED = tuple(kind for kind, own in OWN.items() if own.check is not None)
"""Kinds of tables that can be checked."""


def consistency(conn: Control, kind: Tables) -> Consistency:
    """Check the tables of one of the kinds ``CHECKED``."""
    check = OWN[kind].check
    assert check is not None, "the kind is one of CHECKED"
    return check(conn)
