"""The ack ledger: the clients' record of the outcome of each transaction, kept outside the server.

The load engine writes one file per thread into a directory (crates/load/src/acks). A file begins
with a header that describes it, followed by records of a fixed size. ``read_acks`` combines the
files of a directory. An incomplete last record of a killed process is dropped and counted.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pgdyno.errors import UsageError
from pgdyno.files import read_at_most
from pgdyno.json_types import Json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAGIC = b"pgdynoAL"
VERSION = 1
SUFFIX = ".acks"


class AckOutcome(IntEnum):
    """The outcome of a transaction on the server, as known to its client."""

    ACKED = 1
    """The server acknowledged all of it."""
    FAILED = 2
    """It certainly had no effect."""
    UNKNOWN = 3
    """The connection ended during a statement that could commit."""
    UNSENT = 4
    """Nothing of it was sent."""


class AckScript(Struct, frozen=True):
    """The script that a record's ``row`` refers to."""

    row: int
    group: str
    script: str
    statements: int


class AckLoad(Struct, frozen=True):
    """A load that wrote into the directory."""

    threads: int
    seed: int
    scripts: tuple[AckScript, ...]
    label: int | None = None
    """The mark of its witnesses in the database, if it writes any."""


class AckLedger(Struct, frozen=True):
    """All records of a directory.

    ``records`` is a structured array, sorted by load, group, client and number of transaction:

    ``load``, ``group`` (numbers from 0), ``client``, ``txn`` (the client's own number of the
    transaction, from 0, as the script's ``:txn``), ``row`` (of ``loads[load].scripts``),
    ``intended_ns``, ``sent_ns``, ``commit_sent_ns`` (when that was sent last which could commit),
    ``ended_ns`` (0 for what did not happen), ``tries``, ``statements`` (acknowledged, in the last
    try), ``commits`` (how often something was committed for sure), ``outcome``
    (:class:`Outcome`), ``column`` (of the ledger: see ``columns``), ``sqlstate`` (of a failure, if
    the server gave one), ``thread``.

    A transaction of a script that commits once is certainly in the database if ``commits`` is not
    0, and certainly not if it is 0 and ``outcome`` is not unknown; otherwise this is not known.
    """

    directory: Path
    loads: tuple[AckLoad, ...]
    records: NDArray[np.void]
    outcomes: Mapping[str, int]
    """Number of records of each outcome."""
    columns: Mapping[str, int]
    """Number of records of each column of the transaction ledger: done, failed, skipped, cancelled.
    Transactions that an open loop skips before a client takes them have no record."""
    torn_bytes: int
    """Bytes of incomplete records at the ends of files of a process that was killed."""

    def problems(self) -> list[str]:
        """Describe the first ten gaps and duplicates in clients' transaction numbers.

        Missing transactions at the end are not a gap: pgdyno itself may have been killed.
        """
        import numpy as np

        found = []
        records = self.records
        keys = [records[name].astype(np.int64) for name in ("load", "group", "client")]
        same = np.ones(max(len(records) - 1, 0), dtype=bool)
        for key in keys:
            same &= key[1:] == key[:-1]
        starts = np.concatenate(([True], ~same))[: len(records)]
        before = np.concatenate(([0], records["txn"][:-1].astype(np.int64)))[: len(records)]
        expected = np.where(starts, 0, before + 1)
        numbers = records["txn"].astype(np.int64)
        for index in np.flatnonzero(numbers != expected)[:10]:
            record = records[index]
            where = f"client {record['client']} of group {self._group(record)!r}"
            if numbers[index] < expected[index]:
                found.append(f"{where}: transaction {numbers[index]} occurs twice")
            else:
                found.append(
                    f"{where}: transactions {expected[index]} to {numbers[index] - 1} are missing"
                )
        return found

    def _group(self, record: np.void) -> str:
        return self.loads[int(record["load"])].scripts[int(record["row"])].group


def read_acks(directory: Path | str) -> AckLedger:
    """Read the ack ledger in ``directory``, also while it grows.

    Raises UsageError if there is none, or if a file is foreign, of another version, or damaged
    other than at its end.
    """
    import numpy as np

    directory = Path(directory)
    files = [_File(path) for path in _paths(directory)]
    stamps = sorted({file.stamp for file in files})
    heads = {file.stamp: file.header for file in files}
    parts = [file.records(stamps.index(file.stamp)) for file in files]
    records = np.concatenate(parts)
    order = np.lexsort([records[name] for name in ("txn", "client", "group", "load")])
    records = records[order]
    return AckLedger(
        directory=directory,
        loads=tuple(_load(heads[stamp]) for stamp in stamps),
        records=records,
        outcomes=_counts(records["outcome"], files[0].header["outcomes"]),
        columns=_counts(records["column"], files[0].header["columns"]),
        torn_bytes=sum(file.torn_bytes for file in files),
    )


class _File:
    """The file of one thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stamp = path.name.partition("-")[0]
        data = _read(path)
        fixed = struct.Struct("<8sIII")
        if len(data) < fixed.size or data[:8] != MAGIC:
            raise self._wrong("it is not an ack ledger of pgdyno", "acks-foreign")
        _, version, self._record_bytes, length = fixed.unpack_from(data)
        if version != VERSION:
            raise self._wrong(f"it has version {version}; this pgdyno reads version {VERSION}")
        try:
            self.header: Json = json.loads(data[fixed.size : length])
        except ValueError as error:
            raise self._wrong(f"its header cannot be read: {error}") from error
        whole = (len(data) - length) // self._record_bytes * self._record_bytes
        self._body = data[length : length + whole]
        self.torn_bytes = max(len(data) - length - whole, 0)

    def records(self, load: int) -> NDArray[np.void]:
        """Return the complete records, with columns for ``load``, ``group`` and ``thread``."""
        import numpy as np

        names, formats, offsets = zip(*self.header["fields"], strict=True)
        layout: Any = {"names": names, "formats": formats, "offsets": offsets}
        layout["itemsize"] = self._record_bytes
        stored = self._without_holes(np.frombuffer(self._body, np.dtype(layout)))
        added = [("load", "<u4"), ("group", "<u4"), ("thread", "<u4")]
        read = np.empty(len(stored), [*zip(names, formats, strict=True), *added])
        for name in names:
            read[name] = stored[name]
        read["load"] = load
        read["thread"] = self.header["thread"]
        groups = [script["group"] for script in self.header["scripts"]]
        numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
        if len(read) and read["row"].max() >= len(groups):
            raise self._wrong("a record names a script that its header does not")
        read["group"] = np.array([numbers[group] for group in groups], dtype=np.uint32)[read["row"]]
        return read

    def _without_holes(self, stored: NDArray[np.void]) -> NDArray[np.void]:
        """Drop zeros at the end, which a crash of the machine leaves; check the record numbers."""
        import numpy as np

        holes = np.flatnonzero(stored["outcome"] == 0)
        if len(holes):
            self.torn_bytes += (len(stored) - int(holes[0])) * self._record_bytes
            stored = stored[: holes[0]]
        if not np.array_equal(stored["number"], np.arange(len(stored), dtype=np.uint32)):
            raise self._wrong("its records are not in order")
        return stored

    def _wrong(self, why: str, code: str = "acks-damaged") -> UsageError:
        return UsageError(
            f"cannot use {self.path}: {why}",
            code=code,
            hint="name a directory that contains only the ack ledger of runs",
        )


def _paths(directory: Path) -> Iterator[Path]:
    try:
        paths = sorted(path for path in directory.iterdir() if path.suffix == SUFFIX)
    except OSError as error:
        raise UsageError(
            f"cannot read the ack ledger {directory}: {error.strerror}", code="acks-missing"
        ) from error
    if not paths:
        raise UsageError(
            f"there is no ack ledger in {directory}",
            code="acks-missing",
            hint="a run writes one if load.acks names a directory",
        )
    yield from paths


def _read(path: Path) -> bytes:
    try:
        return read_at_most(path, None)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", code="acks-missing") from error


def _load(header: Json) -> AckLoad:
    return AckLoad(
        threads=header["threads"],
        seed=header["seed"],
        scripts=tuple(AckScript(**script) for script in header["scripts"]),
        label=header.get("label"),
    )


def _counts(column: NDArray[Any], named: Mapping[str, int]) -> dict[str, int]:
    return {name: int((column == number).sum()) for name, number in named.items()}
