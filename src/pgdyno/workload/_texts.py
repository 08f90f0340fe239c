"""Copy the texts of the files that a spec names into the spec, for the run file.

A run can then be repeated from its run file without these files. Of a setup with rows, which are
the user's data, the run file has the digest instead.
"""

from __future__ import annotations

from pgdyno.spec import ScriptPart, Spec
from pgdyno.workload._loading import script_text
from pgdyno.workload._setup import Setup


def with_texts(spec: Spec) -> Spec:
    """Return ``spec`` with the text of every script file and of the setup.

    Raises UsageError for a file that cannot be read, and for a setup with rows that has changed.
    """
    workload = spec.workload
    filled: dict[str, object] = {"script": _mix_with_texts(workload.script)}
    if (setup := Setup.of(workload)) is not None:
        filled |= setup.fields
    groups = [
        group.model_copy(update={"script": _mix_with_texts(group.script)}) for group in spec.clients
    ]
    return spec.model_copy(
        update={"workload": workload.model_copy(update=filled), "clients": groups}
    )


def _mix_with_texts(mix: str | list[ScriptPart] | None) -> str | list[ScriptPart] | None:
    if mix is None or isinstance(mix, str):
        return mix
    return [
        part if part.file is None else part.model_copy(update={"text": script_text(part)})
        for part in mix
    ]
