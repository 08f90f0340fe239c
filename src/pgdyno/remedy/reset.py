"""The remedy for a setting that costs more than it gives: its default.

What another entry of the catalogue has to say of a default (a checkpoint that comes later, another
sync method) is said there, and the class of the change is the worse of the two.
"""

from __future__ import annotations

from pgdyno.remedy._remedy import Case, Remedy
from pgdyno.spec.setting_defaults import DEFAULTS


def _resets(case: Case) -> bool:
    """True if each of these settings that the change names gets its default, and had another."""
    named = [name.lower() for name in case.change.settings if name.lower() in DEFAULTS]
    return all(
        _is_default(name, case.after.settings.text(name))
        and not _is_default(name, case.before.settings.text(name))
        for name in named
    )


def _is_default(name: str, value: str | None) -> bool:
    return value is None or value.strip("'\" ").lower() == DEFAULTS[name]


REMEDIES = (
    Remedy(
        id="reset-setting",
        summary="put a setting back to PostgreSQL's default",
        kind="reload",
        durability_class="D0",
        price="what the setting was for",
        settings=tuple(sorted(DEFAULTS)),
        when=_resets,
    ),
)
