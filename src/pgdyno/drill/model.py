"""What a drill says: proofs, checks, ledger counts, cuts, and the result over all cuts.

A cut is one repetition: load, fault, proof that the fault happened, verification. Plain data; what
makes it lies in the faults and in ``verify``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from statistics import median
from typing import Any, Literal

from pgdyno._engine import beta_quantile
from pgdyno.record.facts import ServerFacts
from pgdyno.results import drill as results
from pgdyno.spec.disk import emulated_in_words

Outcome = Literal["clean", "lost", "refused", "corrupt", "no-fault"]
"""clean: nothing acknowledged is missing; lost: consistent, yet acknowledged commits are missing;
refused: the server does not start; corrupt: it starts, and takes no connection or a check finds it
damaged; no-fault: the fault did not happen, so that nothing is known."""

SCHEMA_VERSION = 1
CONFIDENCE = 0.95
_BOUND_CUTS_MIN = 5
"""Of fewer cuts, what they allow to be said of all crashes is not worth a sentence."""


@dataclass(frozen=True)
class Proof:
    """Whether the fault happened, shown by what the machine says and not by what was ordered."""

    happened: bool
    sentence: str
    facts: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For results and run files."""
        return asdict(self)


@dataclass(frozen=True)
class Check:
    """One check of a database that came up after a fault."""

    name: str
    passed: bool | None
    """``None``: it was not made, and ``detail`` says why."""
    detail: str
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """For results and run files."""
        return {**asdict(self), "seconds": round(self.seconds, 3)}


@dataclass(frozen=True)
class LedgerCount:
    """The clients' acknowledged commits against what is in the database."""

    acked: int
    """Acknowledged by the server before the cut."""
    lost: int = 0
    """Acknowledged and absent."""
    lost_ms: float = 0.0
    """From the oldest lost acknowledgement to the cut; 0 when none is lost."""
    ghost: int = 0
    """Nobody could know, and yet in the database."""
    unknown: int = 0
    """Nobody can know: in flight when the connection ended."""
    holes: int = 0
    """A later commit of the same client is present, an earlier acknowledged one is absent."""
    phantoms: int = 0
    """Present although it surely was not committed."""
    duplicates: int = 0
    """Present more than once."""

    @property
    def inconsistent(self) -> int:
        """What no setting excuses."""
        return self.holes + self.phantoms + self.duplicates

    def to_json(self) -> dict[str, Any]:
        """For results."""
        return {**asdict(self), "lost_ms": round(self.lost_ms, 3)}


_COUNTS = tuple(each.name for each in fields(LedgerCount))


@dataclass(frozen=True)
class Verified:
    """What verification found after one fault."""

    outcome: Outcome
    ledger: LedgerCount | None
    """``None`` when the server took no connection, so that nothing could be counted."""
    recovery_s: float | None
    """From the start of the server to its first answer; ``None`` when it refused."""
    checks: tuple[Check, ...] = ()
    seen_by: str = ""
    """The check that decided the outcome; '' when all is well."""
    server_said: str = ""
    """The server's decisive words: why it refused, or what it logged of damage."""
    disturbed: str = ""
    """What somebody else did to the server meanwhile, so that none of this counts; '' if nothing.
    """


@dataclass(frozen=True)
class Cut:
    """One repetition of a fault."""

    number: int
    fault: str
    variant: str
    seed: int
    at_ms: float
    """When the fault struck, since the load began."""
    proof: Proof
    verified: Verified | None
    """``None`` when there was nothing to verify: the fault did not happen."""
    facts: dict[str, Any] = field(default_factory=dict)
    """``promised``, where it is false: what was tried is not what the bound is of. ``bound_ms``,
    where it is there: what holds for this cut in place of the drill's."""

    @property
    def outcome(self) -> Outcome:
        """A fault that did not happen proves nothing, whatever was verified."""
        if self.verified is None or not self.proof.happened:
            return "no-fault"
        return self.verified.outcome

    @property
    def ledger(self) -> LedgerCount | None:
        """The ledger of a cut that happened and came up."""
        return self.verified.ledger if self.verified and self.outcome != "no-fault" else None

    def as_result(self) -> results.Cut:
        """The cut as results have it."""
        verified = self.verified
        recovery_s = verified.recovery_s if verified else None
        counts = self.ledger.to_json() if self.ledger else dict.fromkeys(_COUNTS)
        checks = [check.to_json() for check in (verified.checks if verified else ())]
        return results.Cut(
            number=self.number,
            variant=self.variant,
            seed=self.seed,
            at_ms=round(self.at_ms, 1),
            proof=self.proof.to_json(),
            **counts,
            recovery_s=None if recovery_s is None else round(recovery_s, 3),
            outcome=self.outcome,
            seen_by=verified.seen_by if verified else "",
            server_said=verified.server_said if verified else "",
            checks={check.pop("name"): check for check in checks},
            facts=self.facts,
        )

    def to_row(self) -> dict[str, Any]:
        """For a line of CSV: no nested values."""
        whole = self.as_result().to_json()
        del whole["checks"], whole["facts"]
        proof = whole.pop("proof")
        return {"fault": self.fault, **whole, "proof": proof["sentence"]}


@dataclass(frozen=True)
class DrillOptions:
    """What is asked of a drill besides its spec."""

    fault: str
    cuts: int = 20
    seed: int = 1
    sham: bool = False
    """Do everything but the fault."""
    load_s: float | None = None
    """How long the load runs before a cut; ``None``: as the fault likes it, by seed."""
    sector_bytes: int | None = None
    """What a disk writes as a whole: 512 or 4096; ``None``: either, by seed (power)."""
    minimise: bool = False
    """Reduce failing cuts to what they need to fail (power)."""
    budget_s: float | None = None
    """Begin no new cut after so long."""
    variant: str | None = None
    """Only this variant of a fault that has several."""
    cut: int | None = None
    """Only this one of the cuts (power)."""
    recording: str | None = None
    """The folder of a recorded load to make cuts of, or to keep one in (power)."""


@dataclass(frozen=True)
class DrillResult:
    """All cuts of one drill."""

    fault: str
    title: str
    """What was done to which server, in one sentence."""
    spec: dict[str, Any]
    server: ServerFacts
    settings: dict[str, str]
    """Settings in force that decide what may be lost."""
    cuts: tuple[Cut, ...]
    bound_ms: float | None
    """Documented bound of loss; ``None``: there is no such bound, ``bound`` says why."""
    bound: str
    run_file: str = ""
    seed: int = 0
    sham: bool = False
    pooled: bool = False
    """Whether variants are drawn by seed out of one lot, so that they are judged together."""

    def summary(self) -> results.Summary:
        """The figures over all cuts."""
        whole = summarise(self.cuts, self.bound_ms)
        questions = self.questions()
        if len(questions) == 1:
            return whole
        each = (f"{v}: {summarise(cuts, self.bound_ms).sentence}" for v, cuts in questions.items())
        return whole.model_copy(update={"sentence": ". ".join(each)}) if questions else whole

    def questions(self) -> dict[str, list[Cut]]:
        """The cuts by the variant that they answer for; all under '' where that is one question."""
        found: dict[str, list[Cut]] = {}
        for cut in self.cuts:
            found.setdefault("" if self.pooled else cut.variant, []).append(cut)
        return found

    @property
    def server_version(self) -> str:
        """The server's version, without what a packager adds to it."""
        return str(self.server.get("version", "")).split(" (")[0]

    @property
    def fault_missing(self) -> bool:
        """Whether some cut's fault did not happen, so that the drill cannot be trusted."""
        return not self.cuts or any(cut.outcome == "no-fault" for cut in self.cuts)

    @property
    def nothing_acked(self) -> bool:
        """Whether nothing was there to be lost: no transaction was acknowledged before any cut."""
        return bool(self.cuts) and not any(cut.ledger and cut.ledger.acked for cut in self.cuts)

    def worse_than_bound(self) -> list[Cut]:
        """Cuts that lost more than the settings' documentation allows, or are damaged."""
        return [cut for cut in self.cuts if _beyond(cut, self.bound_ms)]

    def as_result(self, **more: Any) -> results.DrillResult:
        """The drill as the command's result, with ``more`` of its optional members."""
        return results.DrillResult(**dict(self.as_drill()), **more)

    def as_drill(self) -> results.Drill:
        """The drill as results have it."""
        return results.Drill(
            schema_version=SCHEMA_VERSION,
            run_file=self.run_file,
            fault=self.fault,
            title=self.title,
            seed=self.seed,
            sham=self.sham,
            server_version=self.server_version,
            emulated=emulated_in_words(self.spec),
            settings=dict(self.settings),
            bound=self.bound,
            cuts=tuple(cut.as_result() for cut in self.cuts),
            summary=self.summary(),
        )


def _beyond(cut: Cut, bound_ms: float | None) -> bool:
    bound_ms = cut.facts.get("bound_ms", bound_ms)
    if bound_ms is None or not cut.facts.get("promised", True):
        return False
    if cut.outcome in ("refused", "corrupt"):
        return True
    ledger = cut.ledger
    return ledger is not None and ledger.lost > 0 and ledger.lost_ms > bound_ms


def summarise(cuts: Sequence[Cut], bound_ms: float | None) -> results.Summary:
    """Figures over ``cuts``; those whose fault did not happen count only under ``cuts``."""
    happened = [cut for cut in cuts if cut.outcome != "no-fault"]
    ledgers = [cut.ledger for cut in happened if cut.ledger is not None]
    lost = [ledger.lost for ledger in ledgers]
    lost_ms = [ledger.lost_ms for ledger in ledgers]
    recoveries = [
        cut.verified.recovery_s
        for cut in happened
        if cut.verified is not None and cut.verified.recovery_s is not None
    ]
    counts = {
        outcome: sum(cut.outcome == outcome for cut in happened)
        for outcome in ("corrupt", "refused", "lost", "clean")
    }
    harmed = len(happened) - counts["clean"]
    return results.Summary(
        cuts=len(cuts),
        happened=len(happened),
        acked=sum(ledger.acked for ledger in ledgers),
        lost_max=max(lost, default=None),
        lost_median=median(lost) if lost else None,
        lost_ms_max=round(max(lost_ms), 3) if lost_ms else None,
        lost_ms_median=round(median(lost_ms), 3) if lost_ms else None,
        bound_ms=bound_ms,
        **counts,
        recovery_s_median=round(median(recoveries), 3) if recoveries else None,
        recovery_s_max=round(max(recoveries), 3) if recoveries else None,
        upper_bound=share_upper_bound(harmed, len(happened)),
        sentence=_sentence(len(cuts), len(happened), counts, ledgers),
    )


def share_upper_bound(harmed: int, n: int) -> float | None:
    """One-sided 95 % upper bound of the share of harmed cuts when ``harmed`` of ``n`` were.

    Clopper and Pearson's exact bound; with none harmed it is 1 - 0.05 ** (1 / n), about 3 / n.
    ``None`` when nothing was seen.
    """
    if n == 0:
        return None
    if harmed >= n:
        return 1.0
    if harmed == 0:
        return float(round(1 - (1 - CONFIDENCE) ** (1 / n), 4))
    return round(beta_quantile(harmed + 1, n - harmed, CONFIDENCE), 4)


def _sentence(cuts: int, n: int, counts: Mapping[str, int], ledgers: Sequence[LedgerCount]) -> str:
    if cuts == 0:
        return "no cut was made: nothing is known"
    if n == 0:
        return f"the fault did not happen in any of {_cuts(cuts)}: nothing is known"
    parts = []
    if counts["corrupt"]:
        parts.append(f"{counts['corrupt']} of {_cuts(n)} came up corrupt")
    if counts["refused"]:
        parts.append(f"after {counts['refused']} of {_cuts(n)} the server refused to start")
    losing = sum(ledger.lost > 0 for ledger in ledgers)
    if losing:
        parts.append(f"{losing} of {_cuts(n)} lost acknowledged commits: {_losses(ledgers)}")
    idle = sum(ledger.acked == 0 for ledger in ledgers)
    if not parts and idle == n:
        parts.append("nothing had been acknowledged, so that nothing could be lost")
    elif not parts:
        parts.append(f"0 of {_cuts(n)} lost anything{_share_of_all(n, counts)}")
    if 0 < idle < n:
        parts.append(f"before {idle} of them nothing had been acknowledged")
    if n < cuts:
        parts.append(f"in {cuts - n} of {_cuts(cuts)} the fault did not happen")
    return "; ".join(parts)


def figure(value: float) -> str:
    """A number of milliseconds or the like to three digits, never with an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _losses(ledgers: Sequence[LedgerCount]) -> str:
    lost, lost_ms = ([getattr(each, name) for each in ledgers] for name in ("lost", "lost_ms"))
    return (
        f"at most {max(lost):,} of them, the oldest from {figure(max(lost_ms))} ms before; median"
        f" {median(lost):,.10g} and {figure(median(lost_ms))} ms"
    )


def _share_of_all(n: int, counts: Mapping[str, int]) -> str:
    """What ``n`` cuts without harm say of all crashes."""
    bound = share_upper_bound(n - counts["clean"], n)
    if bound is None or n < _BOUND_CUTS_MIN:
        return ""
    return (
        f": at most {bound * 100:.2g} % of such crashes would, with {CONFIDENCE * 100:.0f} %"
        " confidence"
    )


def _cuts(number: int) -> str:
    return f"{number} cut" if number == 1 else f"{number} cuts"
