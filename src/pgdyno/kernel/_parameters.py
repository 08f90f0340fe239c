"""The parameters: files of /proc/sys and /sys, pairs of files, and the flags of a dm-crypt device.

Each is read and written as a text, which is the same after it was written.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import asdict

from pgdyno.errors import SetupError
from pgdyno.json_types import Json
from pgdyno.server.local.programs import find_program, system_path
from pgdyno.spec.kernel import CRYPT_FLAGS, crypt_flags

_DMSETUP_S_MAX = 30.0


class Parameter(Protocol):
    """A parameter of the kernel."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    @property
    def files(self) -> list[Path]:
        """The files that are written."""

    def read(self) -> str:
        """Return its value. Raises OSError."""

    def write(self, value: str) -> None:
        """Set its value. Raises OSError."""


class OneFile(Struct, frozen=True):
    """A parameter in a file of its own."""

    name: str
    path: str

    @property
    def files(self) -> list[Path]:
        """The file."""
        return [Path(self.path)]

    def read(self) -> str:
        """Return the content."""
        return Path(self.path).read_text().strip()

    def write(self, value: str) -> None:
        """Write the content."""
        _write(Path(self.path), value)


class EitherFile(Struct, frozen=True):
    """A limit as a percentage in one file, or as an amount in another: writing one sets the other
    to 0. Its value is ``20%`` or a number of bytes."""

    name: str
    share_path: str
    amount_path: str
    unit_bytes: int
    """Bytes of which the amount is a number."""

    @property
    def files(self) -> list[Path]:
        """Both files."""
        return [Path(self.share_path), Path(self.amount_path)]

    def read(self) -> str:
        """Return the amount if there is one, otherwise the percentage."""
        amount = int(Path(self.amount_path).read_text())
        if amount:
            return str(amount * self.unit_bytes)
        return f"{int(Path(self.share_path).read_text())}%"

    def write(self, value: str) -> None:
        """Write the file that the value is of."""
        if value.endswith("%"):
            _write(Path(self.share_path), value.removesuffix("%"))
        else:
            _write(Path(self.amount_path), str(int(value) // self.unit_bytes))


class CryptQueues(Struct, frozen=True):
    """The work queues that a dm-crypt device goes without: flags of its table, which is loaded
    again while the device is suspended. The key in the table is never kept or shown."""

    name: str
    device: str
    """Its name in the device mapper."""

    @property
    def files(self) -> list[Path]:
        """The device of the device mapper's interface."""
        return [Path("/dev/mapper/control")]

    def read(self) -> str:
        """Return the flags, joined by ``+``, or ``none``."""
        return flags_in(self._table())

    def write(self, value: str) -> None:
        """Load a table with these flags."""
        table = table_with(self._table(), value)
        _dmsetup("load", self.device, table=table)
        _dmsetup("suspend", self.device)
        _dmsetup("resume", self.device)

    def _table(self) -> str:
        return _dmsetup("table", "--showkeys", self.device).strip()


def flags_in(table: str) -> str:
    """Return the flags of a dm-crypt table as ``no_read_workqueue+no_write_workqueue``, or
    ``none``."""
    _, optional = _parted(table)
    return "+".join(flag for flag in CRYPT_FLAGS if flag in optional) or "none"


def table_with(table: str, value: str) -> str:
    """Return a dm-crypt table with the flags of ``value`` and no others of these."""
    required, optional = _parted(table)
    kept = [each for each in optional if each not in CRYPT_FLAGS]
    kept += [flag for flag in CRYPT_FLAGS if flag in crypt_flags(value)]
    return " ".join([*required, *([str(len(kept)), *kept] if kept else [])])


def _parted(table: str) -> tuple[list[str], list[str]]:
    """Return the words before the optional parameters of a dm-crypt table, and those: start,
    length, "crypt", cipher, key, IV offset, device, offset, then their number and they."""
    words = table.split()
    if len(words) < 8 or words[2] != "crypt" or len(table.strip().splitlines()) != 1:
        raise OSError(0, "the device mapper's table is not of one encrypted disk")
    return words[:8], words[9:]


def _dmsetup(*words: str, table: str | None = None) -> str:
    """Run dmsetup; a table, which has a key, is passed on standard input. Raises OSError."""
    program = find_program("dmsetup")
    if program is None:
        raise OSError(0, "this system has no dmsetup (package dmsetup)")
    done = subprocess.run(
        [program, *words],
        input=table,
        stdin=None if table is not None else subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=_DMSETUP_S_MAX,
        env={"PATH": system_path(), "LC_ALL": "C"},
    )
    if done.returncode != 0:
        said = " ".join(done.stderr.split()) or f"dmsetup ended with status {done.returncode}"
        raise OSError(0, said)
    return done.stdout


def _write(path: Path, value: str) -> None:
    """Write a file of the kernel in one write, which takes it or returns an error."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, f"{value}\n".encode())
    finally:
        os.close(descriptor)


_KINDS = {"one": OneFile, "either": EitherFile, "crypt": CryptQueues}


def to_json(parameter: Parameter) -> dict[str, object]:
    """Return the parameter for the undo record."""
    kind = next(name for name, each in _KINDS.items() if isinstance(parameter, each))
    return {"kind": kind, **asdict(parameter)}  # type: ignore[arg-type]


def from_json(fields: Json) -> Parameter:
    """Return the parameter of an undo record. Raises KeyError or TypeError."""
    rest = {name: value for name, value in fields.items() if name != "kind"}
    parameter: Parameter = _KINDS[fields["kind"]](**rest)
    return parameter


def check_changeable(parameter: Parameter, key: str) -> None:
    """Raise SetupError if this process may not change the parameter; it is not changed."""
    for path in parameter.files:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
        except OSError as problem:
            raise not_changeable(parameter, key, problem) from None


def not_changeable(parameter: Parameter, key: str, problem: OSError) -> SetupError:
    """Return the error for a parameter that cannot be changed."""
    return SetupError(
        f"{key}: {parameter.name} cannot be changed: {problem.strerror}",
        code="kernel-parameter",
        hint="it needs root on the machine itself, or in a container with --privileged; leave"
        f" {key} out to run with the kernel as it is",
    )
