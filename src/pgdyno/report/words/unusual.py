"""The settings that are not at their built-in value as a table, with how each was judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgdyno.report.view import OnPage, Section
from pgdyno.report.words.tables import Table

if TYPE_CHECKING:
    from pgdyno.results.common import UnusualSetting


def sections(found: Sequence[UnusualSetting] | None) -> list[Section]:
    """Return the section of the unusual settings; none if there are none."""
    if not found:
        return []
    rows = [(each.setting, each.value, each.built_in, each.source, each.sentence) for each in found]
    head = ("Setting", "Value", "Built-in value", "Set by", "Judged")
    table = Table("Settings that are not at their built-in value", head, rows, wide=True)
    return [Section("settings", "Settings", [OnPage(table)])]
