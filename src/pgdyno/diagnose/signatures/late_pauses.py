r"""Late pauses: clients wake from the pauses of their script later than it asks for.

Trigger: what pauses take beyond what ``\sleep`` asks for is at least ``LATE_SHARE`` of the response
time. A client wakes late where its machine has no idle core for it, or where the load generator's
thread is busy with others. The time is none of the server's, though the response time has it.

Where sessions queue for the same cores the generator is one of those who wait: what makes them
busy is then the cause. The gain is what the model predicts without the lateness.

Threshold: 15 %, the smallest part of the response time that needs an explanation.
"""

from __future__ import annotations

from msgspec.structs import replace

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.sessions import SPARE_SHARE
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence

LATE_SHARE = 0.15
_CAUSES = ("client-limited", "other-programs", "cpu-steal", "connections", "server-cpu")
ADVICE = (
    "run the load generator on another machine, or with fewer clients; the times without these"
    " pauses are those of each statement"
)


def examine(s: Situation) -> Found | Cleared:
    """Examine the time that pauses take beyond what the script asks for."""
    late_ms, share = s.budget.parts_ms.get("late", 0.0), s.budget.share("late")
    evidence = _evidence(s, late_ms, share)
    sentence = (
        f"clients wake {figure(late_ms)} ms later from the pauses of their script than it asks for"
    )
    if share < LATE_SHARE:
        return Cleared(sentence, evidence, parts=("late",))
    return Found(
        sentence=f"{sentence}, {percent(share)} of the response time{_why(s)}",
        parts=("late",),
        liftable=1.0 - 1.0 / max(1.0, _ratio(s, late_ms)),
        confidence=0.7,
        evidence=evidence,
        causes=_CAUSES,
        advice=ADVICE,
    )


def _why(s: Situation) -> str:
    cpu, beside = s.cpu_if_recorded, s.run.run.host.get("same_host_as_server")
    if beside and cpu is not None and cpu.idle_share < SPARE_SHARE:
        return ": hardly a core is idle for the load generator, which runs beside the server"
    return ": this is the load generator's time and not the server's"


def _ratio(s: Situation, late_ms: float) -> float:
    """Return the predicted ratio without the lateness, which is part of the model's rest."""
    punctual = replace(s.loop, rest_s=max(0.0, s.loop.rest_s - late_ms / 1000))
    return punctual.predict() / s.loop.predict()


def _evidence(s: Situation, late_ms: float, share: float) -> list[Evidence]:
    generator = s.run.generator(s.slice_ids)
    evidence = [
        s.evidence("lateness / response time", share, "share", f"at least {percent(LATE_SHARE)}"),
        s.evidence("lateness after pauses of the script", late_ms, "ms"),
        s.evidence("pauses of the script", s.budget.parts_ms.get("pause", 0.0), "ms"),
        s.evidence("load generator", s.generator_cores, "cores"),
        s.evidence("longest stall of its event loop", generator.loop_stall_us_max / 1000, "ms"),
    ]
    if s.cpu_if_recorded is not None:
        evidence.append(s.evidence("host CPU idle", s.cpu.idle_share, "share"))
    return evidence


SIGNATURE = Signature(
    id="late-pauses",
    false_positives=(
        "a script whose pauses depend on what its statements return; work of the client between"
        " statements, such as a script of long expressions"
    ),
    examine=examine,
    of_clients=True,
)
