"""Elements of a JMeter plan that set variables when a transaction begins: files, counters, random
numbers.

A plan that names files outside of its directory is refused, unless the user allows it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.imports._lines import CannotTake
from pgdyno.imports._plan_texts import Texts
from pgdyno.imports._plan_tree import Element
from pgdyno.workload import read_lines

_FILES_SHOWN_MAX = 6
_DELIMITERS = {"": ",", "\\t": "\t"}
_SHARED = {"sharemode.all", "sharemode.group", "all threads", "current thread group"}
"""Ways to share lines in which no line is used twice before the last one; once labels, too."""


def names_at_start(element: Element, texts: Texts, directory: Path) -> list[str]:
    """Return the variables that an element sets. Raises CannotTake."""
    if element.kind == "CounterConfig":
        names = [element.text("CounterConfig.name")]
    elif element.kind == "RandomVariableConfig":
        names = [element.text("variableName")]
    elif element.text("variableNames").strip():
        names = texts.fixed_text(element.text("variableNames")).split(",")
    else:
        names = _rows(element, texts, directory)[0]
    return [name.strip() for name in names if name.strip()]


def start_lines(
    element: Element, texts: Texts, directory: Path, tables: dict[str, str], *, clients: int
) -> list[str]:
    """Return the lines of an element; the lines of its file are added to ``tables``.

    Raises CannotTake.
    """
    if element.kind == "CSVDataSet":
        return _csv(element, texts, directory, tables)
    if element.kind == "CounterConfig":
        return _counter(element, texts, clients)
    name = texts.changes(element.text("variableName").strip())
    if element.text("outputFormat"):
        raise CannotTake("a format of the number")
    low, high = (element.text(key) for key in ("minimumValue", "maximumValue"))
    bounds = [texts.fixed_text(each).strip() for each in (low or "1", high)]
    if not all(re.fullmatch(r"-?\d{1,18}", each) for each in bounds):
        raise CannotTake("bounds that are not whole numbers")
    return [f"\\set {name} random({bounds[0]}, {bounds[1]})"]


def _csv(element: Element, texts: Texts, directory: Path, tables: dict[str, str]) -> list[str]:
    if not element.flag("recycle", default=True):
        raise CannotTake("it ends with the last line of the file, and is not read again")
    mode = element.text("shareMode", "shareMode.all")
    if mode.lower() not in _SHARED:
        raise CannotTake(f'lines that threads share by "{mode}"')
    names = names_at_start(element, texts, directory)
    rows = _rows(element, texts, directory)
    without_names = not element.text("variableNames").strip()
    if without_names or element.flag("ignoreFirstLine"):
        rows = rows[1:]
    if not rows:
        raise CannotTake("its file has no lines")
    # A line that is too short leaves variables as they were; one that is too long is cut.
    short = next((number for number, row in enumerate(rows, 1) if len(row) < len(names)), None)
    if short is not None:
        raise CannotTake(f"row {short} of its file has fewer than {len(names)} values")
    kept = io.StringIO()
    csv.writer(kept, lineterminator="\n").writerows(row[: len(names)] for row in rows)
    file = _free_name(
        Path(texts.fixed_text(element.text("filename"))).name, tables, kept.getvalue()
    )
    tables[file] = kept.getvalue()
    quoted = "'" + file.replace("'", "''") + "'" if re.search(r"[\s']", file) else file
    return [f"\\csv {quoted} {' '.join(texts.changes(name) for name in names)}"]


def _free_name(file: str, tables: Mapping[str, str], text: str) -> str:
    name, number = file or "lines.csv", 1
    while tables.get(name, text) != text:
        number += 1
        name = f"{Path(file).stem}-{number}{Path(file).suffix}"
    return name


def file_of(element: Element, texts: Texts, directory: Path) -> Path:
    """Return the file of a CSV data set, links followed. Raises CannotTake."""
    name = texts.fixed_text(element.text("filename")).strip()
    if not name:
        raise CannotTake("no file is named")
    try:
        return (directory.expanduser().resolve() / name).resolve()
    except (OSError, ValueError, RuntimeError):  # A zero byte, or links in a circle.
        raise CannotTake(f"its file {name[:80]!r} cannot be read") from None


def _rows(element: Element, texts: Texts, directory: Path) -> list[list[str]]:
    encoding = texts.fixed_text(element.text("fileEncoding")).strip().lower()
    if encoding not in ("", "utf-8", "utf8", "us-ascii", "ascii"):
        raise CannotTake(f"a file in {encoding}")
    written = element.text("delimiter", ",")
    delimiter = _DELIMITERS.get(written, written)
    if len(delimiter) != 1:
        raise CannotTake(f'the delimiter "{delimiter}"')
    file = file_of(element, texts, directory)
    try:
        text = io.StringIO(read_lines(str(file)))
    except UsageError as problem:
        raise CannotTake(problem.message) from None
    if element.flag("quotedData"):
        rows = csv.reader(text, delimiter=delimiter)
    else:
        rows = csv.reader(text, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    try:
        return [row for row in rows if row]
    except csv.Error as problem:
        raise CannotTake(f"its file {file} cannot be read: {problem}") from None


def _counter(element: Element, texts: Texts, clients: int) -> list[str]:
    if element.text("CounterConfig.format"):
        raise CannotTake("a format of the number")
    start, step, end = (
        texts.whole(element.text(f"CounterConfig.{key}") or default, f"{key} of")
        for key, default in (("start", "0"), ("incr", "1"), ("end", str(10**11)))
    )
    if end < start or step < 1:
        raise CannotTake(f"a counter from {start} to {end} by {step}")
    count = (end - start) // step + 1
    own = element.flag("CounterConfig.per_user")
    turn = ":txn" if own else f":txn * {clients} + :client_id"
    name = texts.changes(element.text("CounterConfig.name").strip())
    return [f"\\set {name} {start} + mod({turn}, {count}) * {step}"]


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
        more = (
            [f"and {len(found) - _FILES_SHOWN_MAX} more"] if len(found) > _FILES_SHOWN_MAX else []
        )
        raise UsageError(
            "\n".join(
                [*found[:_FILES_SHOWN_MAX], *more, f"that is outside of the directory {inside}"]
            ),
            code="import-outside-file",
            hint="its lines are sent to the plan's server; --allow-files reads it",
        )
