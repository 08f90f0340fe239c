"""What one slice has different from another: settings, pool sizes, client counts, rates, table
options.

A ``Change`` is the single currency between remedies, comparisons and the conductor: remedies carry
one, ``pgdyno compare`` builds one from its flags, and the conductor puts one in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Change:
    """A difference against the spec. Empty fields mean "as the spec says"."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """Server settings, name → value in PostgreSQL's own spelling; applied by ALTER SYSTEM."""
    pool_max: Mapping[str, int | None] = field(default_factory=dict)
    """Client group → size of its client pool; ``None`` takes the pool away."""
    clients: Mapping[str, int] = field(default_factory=dict)
    """Client group → number of clients."""
    rate: Mapping[str, float] = field(default_factory=dict)
    """Client group in open loop → factor on its rate."""
    table_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Table → storage parameters, for ALTER TABLE … SET."""
    spec: Mapping[str, str] = field(default_factory=dict)
    """Dotted key of the spec's load, workload, clients or standby → value, as ``load.protocol``."""

    def __bool__(self) -> bool:
        return bool(self.to_json())

    def settings_beside(self, other: Change) -> list[str]:
        """Names of the settings in which this change differs from ``other``."""
        names = {**self.settings, **other.settings}
        return [name for name in names if self.settings.get(name) != other.settings.get(name)]

    def over(self, earlier: Change) -> Change:
        """This change on top of ``earlier``: where both speak, this one wins."""
        tables = {**earlier.table_options}
        for table, options in self.table_options.items():
            tables[table] = {**tables.get(table, {}), **options}
        return Change(
            settings={**earlier.settings, **self.settings},
            pool_max={**earlier.pool_max, **self.pool_max},
            clients={**earlier.clients, **self.clients},
            rate={**earlier.rate, **self.rate},
            table_options=tables,
            spec={**earlier.spec, **self.spec},
        )

    def without(self, other: Change) -> Change:
        """What this change has that ``other`` does not name."""
        tables = {
            table: {name: value for name, value in options.items() if name not in named}
            for table, options in self.table_options.items()
            for named in [other.table_options.get(table, {})]
        }
        return Change(
            settings={n: v for n, v in self.settings.items() if n not in other.settings},
            pool_max={n: v for n, v in self.pool_max.items() if n not in other.pool_max},
            clients={n: v for n, v in self.clients.items() if n not in other.clients},
            rate={n: v for n, v in self.rate.items() if n not in other.rate},
            table_options={table: options for table, options in tables.items() if options},
            spec={n: v for n, v in self.spec.items() if n not in other.spec},
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready form with empty fields left out; ``from_json`` reads it back."""
        fields = {
            "settings": dict(self.settings),
            "pool_max": dict(self.pool_max),
            "clients": dict(self.clients),
            "rate": dict(self.rate),
            "table_options": {table: dict(o) for table, o in self.table_options.items()},
            "spec": dict(self.spec),
        }
        return {name: value for name, value in fields.items() if value}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Change:
        """The change that ``to_json`` wrote."""
        return cls(**fields)
