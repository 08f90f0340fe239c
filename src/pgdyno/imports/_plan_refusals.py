"""JMeter plans that are refused as a whole: those that name files outside their directory, and
those without a request by HTTP."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.imports._lines import CannotTake
from pgdyno.imports._plan_requests import SAMPLERS
from pgdyno.imports._plan_start import file_of
from pgdyno.imports._plan_texts import Texts
from pgdyno.imports._plan_tree import Element

_SHOWN_MAX = 6
_SQL = "JDBCSampler"


def check_protocol(plan: Element, file: str) -> None:
    """Raise UsageError if a plan has requests, and none by HTTP."""
    kinds = Counter(each.kind for each in plan.walk() if each.kind.endswith("Sampler"))
    if not kinds or SAMPLERS & {each.kind for each in plan.walk()}:
        return
    shown = ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common(_SHOWN_MAX))
    what, hint = "none of its requests is by HTTP", "pgdyno run -f FILE plays a script"
    if _SQL in kinds:
        what = "its requests are SQL by JDBC, and none is by HTTP"
        hint = "put the SQL into a script: pgdyno run -f FILE.sql -d DATABASE"
    raise UsageError(f"{file}: {what}: {shown}", code="import-no-http", hint=hint)


def check_files(plan: Element, texts: Texts, path: Path) -> None:
    """Raise UsageError for files that a plan names outside of its directory, also by a link.

    Who wrote the plan chose them, and their lines go to the plan's server.
    """
    inside = path.expanduser().parent.resolve()
    found = []
    for element in plan.walk():
        if element.kind != "CSVDataSet":
            continue
        try:
            file = file_of(element, texts, path.parent)
        except CannotTake:
            continue  # Named when its lines are read.
        if not file.is_relative_to(inside):
            found.append(f"{path}:{element.line}: {element.described} names {file}")
    if found:
        more = [f"and {len(found) - _SHOWN_MAX} more"] if len(found) > _SHOWN_MAX else []
        raise UsageError(
            "\n".join([*found[:_SHOWN_MAX], *more, f"that is outside of the directory {inside}"]),
            code="import-outside-file",
            hint="its lines are sent to the plan's server; --allow-files reads it",
        )
