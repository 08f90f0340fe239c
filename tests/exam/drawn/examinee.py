"""One draw, carried out in a process of its own: JSON in, JSON out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from exam.drawn import grading
from exam.drawn.answers import Promise, applicable, promises, undoes_exactly
from exam.drawn.drawing import draw
from exam.drawn.model import Draw, Fault, ServerFacts
from exam.drawn.spec import spec_text, write_repeatable
from exam.drawn.truth import PLANTED, measured
from exam.drawn.world import World, facts_of
from exam.grading import NEIGHBOURS_CORES_MAX, NOT_PRODUCIBLE
from exam.injectors import NotProducible
from exam.machine import neighbours
from pgdyno.errors import PgdynoError
from pgdyno.server import Cluster, find_installation

DRAW_S = 24.0
"""What a draw should take; more pairs are measured only within this time."""
_RUN_S_MAX = 60
_PROMISED = "promised"
_WITHOUT = "without"
_HELD_MIN = 0.9
"""Share of the rate of a healthy load that pgbench must hold, too."""
_END_MIN = 0.9
"""Share of the throughput without the causes that an investigation must end at."""


class NoAnswer(Exception):
    """pgdyno printed no result; the text is the end of what it said."""


def carried_out(asked: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Carry a draw out; return its row. Raises NotProducible, or PgdynoError."""
    until_s = time.monotonic() + DRAW_S
    with ExitStack() as stack:
        installation = find_installation(None, asked["version"])
        cluster = stack.enter_context(Cluster.create(installation, {}))
        server = facts_of(cluster, asked["version"])
        drawn = draw(asked["seed"], server, asked["kinds"])
        world = World(cluster, drawn.load, folder)
        stack.callback(world.close)
        row = _described(drawn)
        try:
            with neighbours(world.programs) as others:
                row |= _examined(world, drawn, server, asked, until_s)
        except NotProducible as problem:
            return row | _ungraded(row, NOT_PRODUCIBLE, str(problem))
        except NoAnswer as problem:
            return row | _ungraded(row, "failed", str(problem))
    row["other_programs_cores"] = round(others.cores, 2)
    if others.cores > NEIGHBOURS_CORES_MAX and not asked["busy_machine"]:
        return row | _ungraded(row, "disturbed", f"{others.cores:.2f} cores of other programs")
    return row


def _described(drawn: Draw) -> dict[str, Any]:
    load = drawn.load
    return {
        "seed": drawn.seed,
        "version": drawn.version,
        "healthy": drawn.healthy,
        "load": {
            "statements": load.statements,
            "scripts": [[script.text, script.weight] for script in load.scripts],
            "protocol": load.protocol,
            "clients": load.clients,
            "schema": to_builtins(load.names),
        },
        "causes": [_cause(fault) for fault in drawn.faults],
    }


def _cause(fault: Fault) -> dict[str, Any]:
    return {"name": fault.entry, "kind": fault.kind, "planted": fault.text}


def _ungraded(row: dict[str, Any], outcome: str, why: str) -> dict[str, Any]:
    causes = [{**each, "outcome": outcome} for each in row["causes"]]
    return {"outcome": outcome, "why": why, "causes": causes}


def _examined(
    world: World, drawn: Draw, server: ServerFacts, asked: dict[str, Any], until_s: float
) -> dict[str, Any]:
    """Set the draw up, ask pgdyno, measure the truth, and grade."""
    world.set_up()
    if asked["budget"] is not None:
        return _investigated(world, drawn, server, asked, until_s)
    rate_tps = _rate(world, drawn)
    world.switch(drawn.faults)
    keep = None if asked["keep"] is None else Path(asked["keep"])
    answer = _asked_pgdyno(world, drawn, rate_tps, keep)
    said = {"rate_tps": rate_tps, "verdict": _shortened(answer)}
    findings = answer["findings"]
    if drawn.healthy:
        grade = grading.of_healthy(findings)
        return {**said, "outcome": grade.outcome, "why": grade.why, "causes": []}
    verdict = answer["verdict"]["finding"]
    return said | _graded(world, drawn, server, findings, verdict, rate_tps, until_s)


def _investigated(
    world: World, drawn: Draw, server: ServerFacts, asked: dict[str, Any], until_s: float
) -> dict[str, Any]:
    """Measure the load with and without all causes, let pgdyno investigate it on a server of its
    own, and grade where that ends. Raises NotProducible if pgdyno could undo none of them."""
    faults = drawn.faults
    if not faults or drawn.load.rate_share is not None:
        raise NotProducible("no cause in a closed loop")
    if any(fault.bait or fault.beside or not fault.right.can_be_undone for fault in faults):
        raise NotProducible("pgdyno cannot undo it")
    world.switch(faults)
    shape = world.shape
    arms = {PLANTED: faults, _WITHOUT: ()}
    truth = measured(world, arms, server, until_s=until_s).truths[_WITHOUT]
    grade, said = grading.Grade(grading.NOT_WORTH), {}
    if truth.worth_it:
        spec = Path(asked["keep"] or world.folder) / f"draw-{drawn.seed}" / "spec.toml"
        write_repeatable(spec.parent, drawn, shape, None)
        said = _ended(_answer_of("investigate", str(spec), "--budget", asked["budget"]))
        grade = grading.of_end(said["ratio"], _END_MIN * truth.low)
    graded = {
        "truth": to_builtins(truth),
        "worth_it": truth.worth_it,
        "outcome": grade.outcome,
        "why": grade.why,
    }
    causes = [_cause(fault) | graded for fault in faults]
    return {"causes": causes, "outcome": grade.outcome, "investigation": said}


def _ended(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the ratio of throughput at which an investigation ended, and its steps."""
    final_tps = answer["final_tps"]
    return {
        "ratio": 1.0 if final_tps is None else round(final_tps / answer["baseline_tps"], 3),
        "steps": [
            [each["decision"], each["remedy"]["title"], each["effect"]["throughput_ratio"]]
            for each in answer["steps"]
        ],
        "not_measured": [[each["title"], each["why"]] for each in answer["not_measured"]],
        "verdict": answer["verdict"]["sentence"],
        "next_limit": answer["next_limit"]["sentence"],
        "elapsed_s": answer["elapsed_s"],
    }


def _rate(world: World, drawn: Draw) -> float | None:
    """Return the rate of a load, a share of what it reaches without causes, or ``None``.

    Raises NotProducible if pgbench cannot hold that of a healthy load.
    """
    share = drawn.load.rate_share
    if share is None:
        return None
    rate_tps = max(1.0, round(world.measured().tps * share, 1))
    if not drawn.healthy:
        return rate_tps
    if world.measured(rate_tps=rate_tps).tps < _HELD_MIN * rate_tps and rate_tps > 20:
        raise NotProducible("the rate is not held")
    return rate_tps


def _asked_pgdyno(
    world: World, drawn: Draw, rate_tps: float | None, keep: Path | None
) -> dict[str, Any]:
    """Return the JSON of ``pgdyno run`` with the load, as it is now."""
    spec = world.folder / "spec.toml"
    scripts = [(path.name, weight) for path, weight in world.scripts()]
    server = {"kind": "existing", "conninfo": world.entrance.uri_without_password}
    spec.write_text(spec_text(drawn, world.shape, server, scripts, rate_tps=rate_tps))
    run = world.folder / "run.db"
    if keep is not None:
        kept = keep / f"draw-{drawn.seed}"
        write_repeatable(kept, drawn, world.shape, rate_tps)
        run = kept / "run.db"
        run.unlink(missing_ok=True)
    return _answer_of(
        *("run", str(spec), "-o", str(run)),
        password=world.entrance.password or "",
        seconds_max=_RUN_S_MAX,
    )


def _answer_of(
    command: str, *arguments: str, password: str = "", seconds_max: float | None = None
) -> dict[str, Any]:
    """Return the JSON of a command of pgdyno, with its exit status. Raises NoAnswer."""
    done = subprocess.run(
        [sys.executable, "-m", "pgdyno", command, *arguments, "--format", "json"],
        env=os.environ | {"PGPASSWORD": password},
        capture_output=True,
        text=True,
        timeout=seconds_max,
    )
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise NoAnswer(f"pgdyno {command}: {done.stderr.strip()[-300:]}") from None
    return answer | {"exit_status": done.returncode}


def _shortened(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the part of the answer that is graded."""
    made, rest = [], []
    for each in answer["findings"]:
        if each["status"] in ("cleared", "skipped"):
            rest.append({"id": each["id"], "status": each["status"], "sentence": each["sentence"]})
            continue
        members = ("id", "rank", "severity", "share", "sentence", "advice", "commands")
        proposed = [
            [remedy["change"], remedy["predicted_ratio"], remedy["predicted_interval"]]
            for remedy in each["remedies"]
        ]
        made.append({name: each[name] for name in members} | {"remedies": proposed})
    verdict = answer["verdict"]
    return {
        "finding": verdict["finding"],
        "sentence": verdict["sentence"],
        "throughput_tps": round(answer["throughput_tps"], 1),
        "exit_status": answer["exit_status"],
        "distrust": answer["distrust"],
        "found": made,
        "not_found": rest,
    }


def _graded(
    world: World,
    drawn: Draw,
    server: ServerFacts,
    findings: Sequence[dict[str, Any]],
    verdict: str | None,
    rate_tps: float | None,
    until_s: float,
) -> dict[str, Any]:
    """Measure what each cause, and what is promised, is worth; grade what was said."""
    faults = drawn.faults
    arms = {PLANTED: faults}
    for fault in faults:
        arms[fault.entry] = tuple(each for each in faults if each is not fault)
    other = _other_promise(faults, server, findings, world)
    if other is not None:
        arms[_PROMISED] = (*faults, other[1])
    result = measured(world, arms, server, until_s=until_s)
    truths = result.truths
    held = rate_tps is not None and result.planted_tps >= rate_tps
    promised = [] if other is None else [(other[0], truths[_PROMISED])]
    grades = grading.of_causes(
        faults, truths, server, findings, verdict, promised=promised, held=held
    )
    causes = [
        _cause(fault)
        | {
            "truth": to_builtins(truths[fault.entry]),
            "worth_it": truths[fault.entry].worth_it and not (fault.bait or held),
            "outcome": grade.outcome,
            "without_promises": apart,
            "why": grade.why,
        }
        for fault, (grade, apart) in zip(faults, grades, strict=True)
    ]
    return {
        "planted_tps": round(result.planted_tps, 1),
        "causes": causes,
        "promised": [to_builtins({"promise": p, "truth": worth}) for p, worth in promised],
        "outcome": causes[0]["outcome"],
    }


def _other_promise(
    faults: Sequence[Fault],
    server: ServerFacts,
    findings: Sequence[dict[str, Any]],
    world: World,
) -> tuple[Promise, Fault] | None:
    """Return the first promise that undoes no cause and that can be tried, if there is one cause."""
    if len(faults) > 1:
        return None
    for promise in promises(findings):
        if not any(undoes_exactly(fault, promise.change, server) for fault in faults):
            tried = applicable(promise, server, world.shape.clients)
            if tried is not None:
                # What is set for the role or the database is not reset for the system.
                scoped = [each.scope for each in faults if {*each.settings} & {*tried.settings}]
                return promise, replace(tried, scope=scoped[0]) if scoped else tried
    return None


def main() -> int:
    """Carry out the draw on standard input; print its row."""
    asked = json.load(sys.stdin)
    with tempfile.TemporaryDirectory(prefix="pgdyno-exam-") as folder:
        try:
            row = carried_out(asked, Path(folder))
        except PgdynoError as problem:
            row = {"error": f"{problem.code}: {problem.message}"}
    print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
