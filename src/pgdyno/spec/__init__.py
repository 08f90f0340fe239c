"""The spec: its model, its units, and changes to it.

``read_spec`` turns a TOML file, a command line or both into a validated :class:`Spec`;
:class:`Change` is the difference between two slices of a run.
"""

from pgdyno.spec._arrival import Arrival
from pgdyno.spec._clients import ClientGroup, Connection, Pool
from pgdyno.spec.change import Change
from pgdyno.spec.load import LoadStep
from pgdyno.spec.model import DiskSpec, Event, Spec
from pgdyno.spec.read import read_spec, spec_from_fields, spec_schema, spec_to_toml
from pgdyno.spec.workload import ScriptPart

__all__ = [
    "Arrival",
    "Change",
    "ClientGroup",
    "Connection",
    "DiskSpec",
    "Event",
    "LoadStep",
    "Pool",
    "ScriptPart",
    "Spec",
    "read_spec",
    "spec_from_fields",
    "spec_schema",
    "spec_to_toml",
]
