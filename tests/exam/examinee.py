"""One case, carried out in a process of its own: JSON in, JSON out.

The process ends with everything that it started, so that a case that hangs or fails cannot harm
the next one.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from exam.cells import cells
from exam.injectors import NotProducible
from exam.machine import neighbours
from exam.model import Case, Proof
from exam.scene import Scene, watched
from exam.specs import fields_of
from pgdyno.conduct import Session, Silent, open_session
from pgdyno.diagnose import NOTHING
from pgdyno.errors import PgdynoError
from pgdyno.investigate.run import run_spec
from pgdyno.spec import spec_from_fields

OF_NEIGHBOURS = frozenset({"other-programs", "disk-filling"})
"""Findings that other programs on the machine cause, or that fill its disk."""


def carry_out_case(case: Case, run: Path, *, busy_machine: bool = False) -> dict[str, Any]:
    """Carry a case out, recorded in ``run``; return what was said and what was proved.

    Raises NotProducible, or PgdynoError if the run fails.
    """
    fields = fields_of(case, busy_machine=busy_machine)
    with ExitStack() as stack:
        injected = case.cause.inject(fields, stack)
        spec = spec_from_fields(fields, where=case.name)
        session = stack.enter_context(
            open_session(spec, run=run, command="run", spec_text="", watcher=Silent())
        )
        scene = _scene(session, fields, injected)
        if "begin" in injected:
            injected["begin"]()
        with neighbours(set(injected.get("programs", ()))) as others, watched(scene):
            result = run_spec(session).to_json()
        proof = case.cause.prove(scene)
    passed_over = OF_NEIGHBOURS - set(case.cause.accepts) if busy_machine else frozenset()
    return {
        **_said(result, passed_over),
        **_proved(proof),
        "other_programs_cores": round(others.cores, 2),
    }


def _scene(session: Session, fields: dict[str, Any], injected: Any) -> Scene:
    cluster = session.target.cluster or injected["cluster"]
    return Scene(
        conninfo=session.target.conninfo,
        fields=fields,
        data_dir=cluster.data_dir,
        wal_dir=cluster.wal_dir,
        log_path=cluster.log_path,
        clients=sum(group.count for group in session.spec.clients if not group.idle),
        injected=injected,
        postmaster=session.target.facts["postmaster_pid"],
        binaries=cluster.installation.binary("postgres").parent,
    )


def _said(result: dict[str, Any], passed_over: Collection[str]) -> dict[str, Any]:
    """Return the answer, as if the findings ``passed_over`` had not been made."""
    found = [each for each in result["findings"] if each["rank"] and each["id"] not in passed_over]
    verdict = result["verdict"]
    said = (verdict["finding"], verdict["sentence"])
    if verdict["finding"] in passed_over:
        said = (found[0]["id"], found[0]["sentence"]) if found else (NOTHING, "")
    return {
        "said": said[0],
        "rank1": said[0] if said[0] in [each["id"] for each in found] else None,
        "sentence": said[1],
        "found": [each["id"] for each in found],
        "throughput_tps": round(result["throughput_tps"], 1),
    }


def _proved(proof: Proof) -> dict[str, Any]:
    owned = None if proof.owned is None else round(proof.owned, 3)
    return {"proof": proof.counter, "proved": proof.holds, "owned": owned}


def _case(asked: dict[str, Any]) -> Case:
    for cell in cells():
        for cause in cell.causes:
            if (cell.name, cause.name) == (asked["cell"], asked["cause"]):
                return Case(cell.name, cause, asked["seed"], asked["version"])
    raise KeyError(f"{asked['cell']}/{asked['cause']}")


def main() -> int:
    """Carry out the case on standard input; print its result."""
    asked = json.load(sys.stdin)
    with tempfile.TemporaryDirectory(prefix="pgdyno-exam-") as folder:
        run = Path(asked["keep"] or folder) / f"{asked['file']}.db"
        run.unlink(missing_ok=True)
        try:
            result = carry_out_case(_case(asked), run, busy_machine=asked["busy_machine"])
        except NotProducible as problem:
            result = {"missing": str(problem)}
        except PgdynoError as problem:
            result = {"error": f"{problem.code}: {problem.message}"}
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
