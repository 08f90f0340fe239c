"""The spec of a pooler or proxy that pgdyno starts between the clients and the server."""

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from pgdyno.spec._base import Misfit, SettingValue, SpecKey, SpecTable

PoolerName = Literal["none", "pgbouncer", "pgpool", "haproxy"]
TITLES = {"pgbouncer": "PgBouncer", "pgpool": "pgpool-II", "haproxy": "HAProxy"}
"""The poolers' own names."""
SIZE_SETTINGS = {"pgbouncer": "default_pool_size", "pgpool": "num_init_children"}
"""The setting that is the size of its pool, of each pooler that has one."""
CLIENT_SETTINGS = {
    "pgbouncer": "max_client_conn",
    "pgpool": "num_init_children",
    "haproxy": "maxconn",
}
"""The setting that limits the clients of each pooler."""
HAPROXY_TIMEOUTS = ("timeout client", "timeout server", "timeout tunnel")
"""HAProxy's limits for connections on which nothing is sent (configuration manual, chapter 4.2)."""
_HAPROXY_TIME = r"(\d+)(us|ms|s|m|h|d)?"
_HAPROXY_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NAME = re.compile(r"[a-z][a-z0-9_.-]*(?: [a-z][a-z0-9_.-]*)*")


class PoolerSpec(SpecTable):
    """A pooler that pgdyno starts in front of the server, and its settings."""

    kind: PoolerName = Field("none", description="What the clients connect to: the server, or this")
    settings: dict[str, SettingValue] = Field(
        default_factory=dict, description="Settings under the pooler's own names"
    )

    @field_validator("settings")
    @classmethod
    def _settings_are_lines(cls, settings: dict[str, str]) -> dict[str, str]:
        for name, value in settings.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f'"{name}" is not the name of a setting')
            if not value.isprintable():
                raise ValueError(f"{name}: control characters are not possible in its value")
        return settings

    @model_validator(mode="after")
    def _settings_of_a_pooler(self) -> Self:
        if self.kind == "none" and self.settings:
            raise Misfit(
                SpecKey("settings"),
                " can only be used with a pooler, such as ",
                SpecKey("kind", "pgbouncer"),
            )
        return self

    @property
    def in_use(self) -> bool:
        """True if clients connect to a pooler."""
        return self.kind != "none"


def in_words(spec: PoolerSpec) -> str:
    """Describe the pooler, such as ``PgBouncer (pool_mode = transaction)``."""
    if not spec.in_use:
        return "no pooler"
    settings = ", ".join(f"{name} = {value}" for name, value in spec.settings.items())
    return f"{TITLES[spec.kind]} ({settings})" if settings else TITLES[spec.kind]


def haproxy_seconds(text: str) -> float | None:
    """Return a time of HAProxy in seconds, which is in milliseconds without a unit; None if it is
    none."""
    found = re.fullmatch(_HAPROXY_TIME, text.strip())
    return None if found is None else int(found[1]) * _HAPROXY_UNITS_S[found[2] or "ms"]
