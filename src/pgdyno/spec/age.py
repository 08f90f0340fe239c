"""Ages of transaction IDs and multixacts, as a spec names them."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

AGE_MAX = (1 << 31) - 500_000
"""Oldest age that can be requested: at 2^31 the oldest rows would be in the future."""
Ids = Literal["xid", "mxid"]
"""IDs that have an age: of transactions, and of multixacts."""
ID_NOUNS: dict[Ids, str] = {"xid": "transaction ID", "mxid": "multixact"}


def _whole(value: Any) -> Any:
    """Return ``1.7e9``, which TOML reads as a float, as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Age = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=AGE_MAX)]
PIN = "pgdyno_age"
"""Name of the slot, or of the prepared transaction, by which pgdyno keeps an age."""
_WRAP_AGE = (1 << 31) - 1
STOP_AGE = _WRAP_AGE - 3_000_000
"""Age of the oldest ID at which a server of any version assigns no more (varsup.c, multixact.c)."""
_NEWER_LIMITS_FROM = 190000
"""First server_version_num that warns earlier, and has no limit for members of multixacts."""


def warning_age(version_num: int = _NEWER_LIMITS_FROM) -> int:
    """Return the age of the oldest ID from which a server warns, in its log and to clients; without
    a version, that of the newest."""
    return _WRAP_AGE - (100_000_000 if version_num >= _NEWER_LIMITS_FROM else 40_000_000)


def members_room(version_num: int) -> int | None:
    """Return how many members of multixacts there can be (multixact.c); None without a limit."""
    return None if version_num >= _NEWER_LIMITS_FROM else 1 << 32


FAILSAFE_AGE = 1_600_000_000
"""Default of vacuum_failsafe_age and vacuum_multixact_failsafe_age."""
FREEZE_AGES: dict[Ids, int] = {"xid": 200_000_000, "mxid": 400_000_000}
"""Defaults of the settings of ``FREEZE_SETTINGS``."""
FAILSAFE_SETTINGS: dict[Ids, str] = {
    "xid": "vacuum_failsafe_age",
    "mxid": "vacuum_multixact_failsafe_age",
}
FREEZE_SETTINGS: dict[Ids, str] = {
    "xid": "autovacuum_freeze_max_age",
    "mxid": "autovacuum_multixact_freeze_max_age",
}
"""Settings of the age at which autovacuum must freeze, whether it is on or off."""
PIN_SETTINGS: dict[Ids, dict[str, str]] = {
    "xid": {"wal_level": "logical"},
    "mxid": {"max_prepared_transactions": "10"},
}
"""Settings without which a server cannot keep its age: a slot, or a prepared transaction, does."""


def unfit_setting(ids: Ids, settings: Mapping[str, str], major: int | None = None) -> str:
    """Return why a server with these settings cannot keep its age; '' if it can, or if that depends
    on the version and ``major`` is not given."""
    level = settings.get("wal_level", "logical")
    # From version 19 on, the first logical slot raises effective_wal_level from replica.
    enough = ("logical",) if major is not None and major < 19 else ("logical", "replica")
    if ids == "xid" and level not in enough:
        return (
            "an age of transaction IDs is kept by a logical replication slot, which needs wal_level"
            f" = logical, and wal_level is {level}"
        )
    if (
        settings.get({"xid": "max_replication_slots", "mxid": "max_prepared_transactions"}[ids])
        == "0"
    ):
        return "an age is kept by a slot or a prepared transaction, and the settings allow none"
    return ""


def failsafe_age(ids: Ids, number: Callable[[str], float | None]) -> float:
    """Return the age from which a vacuum goes on without cost delay and indexes; ``number`` returns
    the value of a setting.

    PostgreSQL raises it to 1.05 times the age at which freezing is forced.
    """
    failsafe = number(FAILSAFE_SETTINGS[ids])
    freeze = number(FREEZE_SETTINGS[ids]) or FREEZE_AGES[ids]
    return max(FAILSAFE_AGE if failsafe is None else failsafe, 1.05 * freeze)
