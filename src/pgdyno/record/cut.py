"""Cuts of drills, with the proof of the fault, the checks and the comparison with the ack ledger:
as verified, as rows of a run file, and as JSON."""

from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from pgdyno.json_types import Json
from pgdyno.record.part import Fact

Outcome = Literal["clean", "lost", "refused", "corrupt", "no-fault"]
"""clean: no acknowledged commit is missing; lost: consistent, but acknowledged commits are missing;
refused: the server does not start; corrupt: it starts, but accepts no connection or fails a check;
no-fault: the fault did not happen, so nothing is known."""
Facts = Json
"""JSON values by name; each fault has its own names."""
Rounded1 = Annotated[float, AfterValidator(partial(round, ndigits=1))]
Rounded3 = Annotated[float, AfterValidator(partial(round, ndigits=3))]
"""A number rounded to three decimals, once, so that figures over several agree everywhere."""
THE_FAULT = "the fault"
OLD_PRIMARYS_END = "the end of the old primary"
"""End of the loss of a failover: until then the primary may have acknowledged what is lost."""


class Proof(Fact):
    """Evidence of the fault, from the state of the machine and not from the order given."""

    happened: bool
    sentence: str
    facts: Facts = Field(default_factory=dict)


class Check(Fact):
    """The result of a check of a database that came up after a fault."""

    name: str
    passed: bool | None
    """null: the check was not made; detail gives the reason"""
    detail: str
    seconds: Rounded3


class LedgerCount(Fact):
    """The clients' acknowledged commits, compared with the contents of the database."""

    acked: int
    """Acknowledged by the server before the fault"""
    lost: int = 0
    """Acknowledged and absent"""
    lost_ms: Rounded3 = 0.0
    """From the oldest lost acknowledgement to the fault; 0: none is lost"""
    ghost: int = 0
    """Unknown and present"""
    unknown: int = 0
    """Under way when the connection ended, so that no client knows the outcome"""
    holes: int = 0
    """Acknowledged and absent, although a later commit of the same client is present"""
    phantoms: int = 0
    """Present, although certainly not committed"""
    duplicates: int = 0
    """Present more than once"""

    @property
    def inconsistent(self) -> int:
        """Number of inconsistencies, which no setting allows."""
        return self.holes + self.phantoms + self.duplicates


class Outage(Fact):
    """The time without an acknowledged commit in a failover, and its parts in ms"""

    no_commit_ms: Rounded3
    """From the last acknowledgement by the old primary to the first by the new one"""
    detect_ms: Rounded3
    """From the fault to the decision that the primary is gone; 0 for a planned switchover"""
    stop_ms: Rounded3
    """Until all processes of the old primary had ended"""
    promote_ms: Rounded3
    """The promotion, until the new primary accepts writes"""
    connect_ms: Rounded3
    """From there, or from the old primary's end, to the first session of a client, or of the
    pooler; 0: such sessions are short and were not seen"""
    commit_ms: Rounded3
    """From there to the first acknowledged commit"""
    both_ms: Rounded3
    """Time in which both servers accepted writes"""
    all_back_ms: Rounded3 | None
    """From the last acknowledgement by the old primary until each client had one by the new
    primary; null: some had none"""
    clients: int
    clients_back: int
    acked_after: int
    """Commits acknowledged by the new primary"""


class Cut(Fact):
    """A repetition of a drill: its proof and its verification."""

    number: int
    variant: str
    """Variant of the fault; "" if the fault has none"""
    seed: int
    """All random choices of this cut follow from it"""
    at_ms: Rounded1
    """Time of the fault, since the load began"""
    proof: Proof
    outcome: Outcome
    """no-fault: the fault did not happen, so nothing is known"""
    ledger: LedgerCount | None = None
    """null: nothing could be counted"""
    recovery_s: Rounded3 | None = None
    """From the server's start to its first answer; null: it refused to start"""
    seen_by: str = ""
    """The check that decided the outcome; "" if all passed"""
    server_said: str = ""
    """The decisive log messages: why the server refused, or the damage that it reported"""
    outage: Outage | None = None
    """Of a failover whose clients came back; null for other faults"""
    checks: tuple[Check, ...] = ()
    facts: Facts = Field(default_factory=dict)
    """promised: false if the drill's bound does not apply to this cut; bound_ms: replaces the bound
    of the drill; others by fault"""

    @property
    def lost_until(self) -> str:
        """The end of the period whose commits may be lost, in words."""
        return OLD_PRIMARYS_END if "promoted" in self.facts else THE_FAULT
