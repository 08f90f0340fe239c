"""JIT compilation of short statements: compiling takes longer than executing.

Trigger: compiling takes at least ``COST_SHARE`` of the response time, by pg_stat_statements. Where
that does not count it: what statements take of the CPU beyond all that is known of them does, and
sessions have the compiler loaded, or jit_above_cost is below its default (see ``facts.compiling``,
which also has the thresholds and their source).
"""

from __future__ import annotations

from pgdyno.diagnose._cpu_uses import (
    backend_cores,
    cpu_parts,
    cpu_uses,
    own_part,
    ratio_of_short,
    ratio_without,
    response_share,
    unexplained_part,
)
from pgdyno.diagnose._pools import WORTHWHILE_RATIO
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.compiling import (
    below_default,
    compiled_statements,
    is_possible,
    loaded_share,
)
from pgdyno.numbers import figure, percent
from pgdyno.record import StatementCount
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.spec.change import Change
from pgdyno.spec.setting_defaults import DEFAULTS
from pgdyno.stats.prediction import Prediction

COST_SHARE = 0.1
SHOWN = 3


def examine(s: Situation) -> Found | Cleared:
    """Examine the time of compiling, or the CPU time of a statement and whether it can have been
    compiled."""
    if not is_possible(s):
        off = "jit is off" if s.can("jit") else "the server was built or installed without JIT"
        return Cleared(off, [s.evidence("jit", s.settings.text("jit"), "")])
    compiled = compiled_statements(s)
    if compiled is not None:
        return _counted(s, compiled)
    if loaded_share(s) is None and not below_default(s):
        raise Skip("whether sessions compile statements is seen only on the server's machine")
    return _by_elimination(s)


def _counted(s: Situation, compiled: list[StatementCount]) -> Found | Cleared:
    share = response_share(s, "jit")
    evidence = [_share_evidence(s, "compilation / response time", share)]
    for each in compiled[:SHOWN]:
        part = min(1.0, each.compiled_ms / each.exec_ms)
        evidence.append(s.evidence("compilation / time of the statement", part, "share"))
        evidence.append(s.evidence("statement", each.statement, ""))
    if share < COST_SHARE:
        return Cleared("compiling takes a small part of the time of statements", evidence)
    return Found(
        sentence=(
            f"compiling statements (JIT) takes about {percent(cpu_uses(s)['jit'])} of the CPU time"
            " of the sessions"
        ),
        parts=cpu_parts(s),
        share=share,
        liftable=ratio_without(s, cpu_uses(s)["jit"]).lifted,
        confidence=0.9,
        evidence=evidence,
        proposals=_proposals(s, ratio_without(s, own_part(s, "jit"))),
    )


def _by_elimination(s: Situation) -> Found | Cleared:
    share = response_share(s, "jit")
    each_ms = 1000 * backend_cores(s) / s.statements_per_s if s.statements_per_s else 0.0
    evidence = [
        s.evidence("CPU time of a statement", each_ms, "ms"),
        _share_evidence(s, "compilation / response time (estimate)", share),
        s.evidence("busiest sessions with the compiler loaded", loaded_share(s), "share"),
        s.evidence(
            "jit_above_cost",
            s.settings.number("jit_above_cost"),
            "",
            f"below {DEFAULTS['jit_above_cost']}",
        ),
    ]
    if share < COST_SHARE:
        if unexplained_part(s) * s.budget.share(*cpu_parts(s)) >= COST_SHARE:
            raise Skip("some statements may be compiled, of which only pg_stat_statements tells")
        return Cleared("no statement takes the CPU time of a compilation", evidence)
    return Found(
        sentence=(
            f"a statement takes {figure(each_ms)} ms of CPU time, about"
            f" {percent(cpu_uses(s)['jit'])} of it to compile it (JIT)"
        ),
        parts=cpu_parts(s),
        share=share,
        liftable=ratio_without(s, cpu_uses(s)["jit"]).lifted,
        confidence=0.8 if loaded_share(s) and below_default(s) else 0.6,
        evidence=evidence,
        # STATEMENT_CPU_S of each statement is not compilation, however small a part that is.
        proposals=_proposals(s, ratio_of_short(s, own_part(s, "jit"))),
    )


def _share_evidence(s: Situation, name: str, share: float) -> Evidence:
    return s.evidence(name, share, "share", f"at least {percent(COST_SHARE)}")


def _proposals(s: Situation, ratio: Prediction) -> list[Proposal]:
    if ratio < WORTHWHILE_RATIO:
        return []
    why = "statements would be executed without being compiled first"
    proposals = [
        Proposal(
            remedy_id="jit-off",
            change=Change(settings={"jit": "off"}),
            predicted_ratio=ratio,
            why=why,
            specific=True,
        )
    ]
    if below_default(s):
        names = ("jit_above_cost", "jit_inline_above_cost", "jit_optimize_above_cost")
        low = {
            name: DEFAULTS[name]
            for name in names
            if 0 <= (s.settings.number(name) or 0.0) < float(DEFAULTS[name])
            and s.settings.text(name) is not None
        }
        proposals.append(
            Proposal(
                remedy_id="reset-setting",
                change=Change(settings=low),
                predicted_ratio=ratio,
                why=why,
                specific=True,
            )
        )
    return proposals


SIGNATURE = Signature(
    id="jit",
    false_positives=(
        "long statements, for which compilation pays; where it is not counted, statements that"
        " compute for long with few rows, as functions do"
    ),
    examine=examine,
)
