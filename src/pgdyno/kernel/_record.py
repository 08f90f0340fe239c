"""The undo record of the kernel's parameters: their former values, written before each change.

There is one for a machine, and one pgdyno at a time that changes them: its lock is held by the run
and by its guardian. A parameter's values end with the boot, so a record of an earlier boot has
nothing to restore.
"""

from __future__ import annotations

import json
from pathlib import Path

from msgspec import Struct, field

from pgdyno.errors import SetupError
from pgdyno.files import write_whole
from pgdyno.json_types import Json
from pgdyno.kernel._parameters import Parameter, from_json, to_json
from pgdyno.server.directories import kernel_dir

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Changed(Struct):
    """A parameter that pgdyno has changed, or is about to."""

    parameter: Parameter
    before: str
    ours: set[str] = field(default_factory=set)
    """Values that pgdyno has set."""


class KernelUndoRecord(Struct):
    """Parameters that one run of pgdyno has changed, in the order of their first changes."""

    boot_id: str
    changed: list[Changed] = field(default_factory=list)

    @classmethod
    def new(cls) -> KernelUndoRecord:
        """Return an empty record of this boot."""
        return cls(boot_id())

    def of(self, parameter: Parameter) -> Changed | None:
        """Return the recorded change of a parameter."""
        return next((each for each in self.changed if each.parameter == parameter), None)

    def write(self) -> None:
        """Write it and flush it. Raises SetupError."""
        fields = {
            "boot_id": self.boot_id,
            "changed": [
                {
                    "parameter": to_json(each.parameter),
                    "before": each.before,
                    "ours": sorted(each.ours),
                }
                for each in self.changed
            ],
        }
        try:
            write_whole(path(), json.dumps(fields, indent=1).encode())
        except OSError as problem:
            raise SetupError(
                f"the undo record {path()} cannot be written: {problem.strerror}",
                code="kernel-record",
                hint="no parameter is changed without it; set PGDYNO_HOME to another directory",
            ) from None

    def restore(self) -> list[str]:
        """Restore what is still changed, the last first, and remove the record; return a sentence
        for each parameter. What cannot be restored stays in the record."""
        said, left = [], []
        for each in reversed(self.changed):
            try:
                if sentence := restored(each):
                    said.append(sentence)
            except OSError as problem:
                said.append(f"{each.parameter.name} is not restored: {problem.strerror}")
                left.append(each)
        self.changed = left[::-1]
        if left:
            self.write()
        else:
            path().unlink(missing_ok=True)
        return said


def restored(changed: Changed) -> str:
    """Restore one parameter, if its value is still pgdyno's; return a sentence, or ''. Raises
    OSError."""
    name = changed.parameter.name
    try:
        present = changed.parameter.read()
    except FileNotFoundError:
        return ""  # The device is gone, and its parameters with it.
    if present == changed.before:
        return ""
    if present not in changed.ours:
        return f"{name} was changed by others meanwhile to {present}, and is left"
    changed.parameter.write(changed.before)
    return f"{name} is {changed.before} again"


def path() -> Path:
    """Return the file of the record."""
    return kernel_dir() / "undo.json"


def lock_path() -> Path:
    """Return the file of its lock."""
    return kernel_dir() / "lock"


def boot_id() -> str:
    """Return the identity of the kernel's present boot."""
    return _BOOT_ID.read_text().strip()


def read() -> KernelUndoRecord | None:
    """Return the record that there is; None if there is none. Raises SetupError."""
    try:
        fields: Json = json.loads(path().read_text())
        changed = [
            Changed(from_json(each["parameter"]), str(each["before"]), set(each["ours"]))
            for each in fields["changed"]
        ]
        return KernelUndoRecord(str(fields["boot_id"]), changed)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise SetupError(
            f"the undo record {path()} cannot be read",
            code="kernel-undo",
            hint="it has former values of the kernel's parameters: compare them with the present"
            " ones (sysctl -a, /sys/block/*/queue/read_ahead_kb), then delete the file",
        ) from None
