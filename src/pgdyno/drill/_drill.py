"""One drill: a session whose server is broken again and again, and looked at each time.

:class:`Drill` is what a fault works with: it starts and ends loads whose acknowledgements are kept
outside the server, keeps the probes away from a server that is down, and has the data directory put
back after a cut that damaged it. Everything that it does follows from the options' seed, but for
what the server and the machine do.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pgdyno.conduct import Session
from pgdyno.drill._bounds import Bound
from pgdyno.drill._clean_copy import Pristine
from pgdyno.drill._evidence import Said
from pgdyno.drill._interference import killed, outside_hand
from pgdyno.drill._verify import Crashed, verify
from pgdyno.drill.model import Cut, DrillOptions, Proof, Verified
from pgdyno.drill.witnesses import (
    Witnesses,
    prepare,
    renew,
    scripts_choose,
    witnessed,
)
from pgdyno.errors import PgdynoError, TrustError
from pgdyno.record import AckLedger, read_acks
from pgdyno.remedy import Circumstances, circumstances
from pgdyno.server import Cluster
from pgdyno.server.directories import shared_directory
from pgdyno.server.replication.receivers import Receivers

LOAD_S = 1.1
"""How long the load runs before a fault, when nothing else is asked for."""
# Faults that come at one time after the start would always meet the same phase of the server.
_LOAD_SPREAD = (0.75, 1.25)
_ENDING_S_MAX = 2.0
_LOOK_S = 0.02


class Drill:
    """What a fault needs to break a loaded server and see what became of it."""

    def __init__(
        self,
        session: Session,
        options: DrillOptions,
        bound: Callable[[Circumstances], Bound],
        *,
        ends_processes: bool,
    ) -> None:
        """``session`` has a server of pgdyno's own, which runs; ``bound`` and whether the fault
        ``ends_processes`` are the fault's own."""
        assert session.target.cluster is not None, "drills are for servers that pgdyno started"
        self.session = session
        self.options = options
        self._fault_ends_processes = ends_processes
        self.cluster: Cluster = session.target.cluster
        self.folder = self.cluster.directory / "drill"
        """For what a drill keeps while it lasts; goes with the cluster."""
        shared_directory(self.folder)
        self.circumstances = replace(
            circumstances(session.spec, session.target.facts["settings"]),
            scripts_choose=scripts_choose(session.workloads),
        )
        """What is in force while nothing is broken."""
        self.bound = bound(self.circumstances)
        """What the documentation allows the fault to take."""
        self.witnesses: Witnesses
        """What is known of the database from before the present load."""
        self._prepared: Witnesses
        self.load_began_ns = 0
        self._pristine = Pristine(self.cluster, self.folder / "pristine")
        self._damaged = False
        self._said = Said(self.cluster)
        self._disturbed = ""
        self._struck = False
        self._loads = 0
        self._began_s = time.monotonic()
        self._outage = ExitStack()

    def prepare(self) -> None:
        """Witness tables, and the copy to go back to; once, before the first cut."""
        self.session.watcher.phase("making witnesses and a copy to go back to")
        with self.session.connect() as connection:
            self.witnesses = self._prepared = prepare(
                connection,
                self.session.workloads,
                unlogged=self.session.spec.workload.unlogged,
            )
        with self.session.probes.rest():
            self.cluster.stop()
            self._pristine.keep()
            self.cluster.start()
        self._said = Said(self.cluster)  # Until now it was shut down by us.

    @property
    def receivers(self) -> Receivers:
        """The server's standbys, none perhaps."""
        receivers = self.session.target.receivers
        assert receivers is not None, "every server that pgdyno started has them"
        return receivers

    def put_back_before_next(self) -> None:
        """The server is not fit to go on with: the next load begins with what was kept."""
        self._damaged = True

    def plan(self) -> Iterator[tuple[int, random.Random, int]]:
        """Number, random numbers and seed of each cut, until all are done or the budget is spent.

        The random numbers of a cut follow from its seed alone.
        """
        for number in range(1, self.options.cuts + 1):
            spent_s = time.monotonic() - self._began_s
            if self.options.budget_s is not None and spent_s > self.options.budget_s:
                return
            seed = cut_seed(self.options.seed, number)
            yield number, random.Random(seed), seed

    def begin_load(self) -> int:
        """All clients at work, on a server that runs; time zero of the load in monotonic ns.

        The data directory is put back first if the last cut damaged it, and standbys follow it.
        """
        put_back, self._damaged = self._damaged, False
        if put_back:
            self._pristine.put_back()
            self.witnesses = self._prepared
        self.cluster.start()
        if put_back:
            self.receivers.rebuild()
        else:
            self.receivers.wait_caught_up()
        self._outage.close()
        self._said, self._disturbed, self._struck = Said(self.cluster), "", False
        with self.session.connect() as connection:
            self.witnesses = renew(connection, self.witnesses)
        self._loads += 1
        self.load_began_ns = self.session.start_load(
            acks=witnessed(self.acks_folder()),
            outage_expected=True,
            # Each load has numbers of its own, or every cut would find the same rows touched.
            seed=cut_seed(self.options.seed, self._loads),
        )
        self.session.wait_connected()
        return self.load_began_ns

    def let_run(self, rng: random.Random) -> None:
        """Let the load run for the time asked for, or one chosen by ``rng``."""
        self.session.wait(rng.uniform(*_LOAD_SPREAD) * (self.options.load_s or LOAD_S))

    def load_until_fault(self, rng: random.Random) -> None:
        """A load that has run for its time, with the probes away: what comes next is the fault."""
        self.begin_load()
        self.let_run(rng)
        self.begin_outage()

    def begin_outage(self) -> None:
        """To be called just before the fault: the probes leave the server alone.

        They do so until the next load begins.
        """
        self._disturbed = outside_hand(self.cluster, self._said.text())
        self._struck = True
        self._outage.enter_context(self.session.probes.rest())

    def look_for_kills(self) -> None:
        """For a fault that ends no process itself: see whether somebody else has, until now."""
        self._disturbed = self._disturbed or killed(self.cluster, self._said.text())

    @property
    def disturbed(self) -> str:
        """What somebody else did to the server before the fault; '' if nothing is known of it."""
        return self._disturbed

    def end_load(self, drain_ms: int = 0) -> AckLedger:
        """Stop the load, by default at once, and read its clients' record."""
        self.session.interrupt_load(drain_ms)
        return read_acks(self.acks_folder())

    def verify(self, acks: AckLedger, cut_ns: int) -> Verified:
        """What became of the database; the server was down before and is so afterwards.

        ``cut_ns`` is when the fault struck.
        """
        crashed = Crashed(cluster=self.cluster, acks=acks, cut_ns=cut_ns, witnesses=self.witnesses)
        verified = verify(crashed)
        emptied = self.session.spec.workload.unlogged and verified.outcome == "lost"
        harmed = verified.outcome in ("refused", "corrupt")
        self._damaged = emptied or harmed or bool(self._disturbed)
        shutil.rmtree(self.acks_folder())
        return verified

    def cut(
        self,
        number: int,
        seed: int,
        cut_ns: int,
        proof: Proof,
        verified: Verified | None,
        *,
        variant: str = "",
        facts: Mapping[str, Any] | None = None,
    ) -> Cut:
        """A cut of this drill; ``cut_ns`` lies within the last load."""
        at_ms = (cut_ns - self.load_began_ns) / 1e6
        told = dict(facts or {})
        if hand := self._disturbed or (verified.disturbed if verified else ""):
            told["disturbed"] = hand
            sentence = f"somebody else had a hand in it: {hand}"
            proof = Proof(False, sentence, proof.facts)
        fault = self.options.fault
        return Cut(number, fault, variant, seed, at_ms, proof, verified, told)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """What breaks off within the block because of somebody else's hand is a TrustError."""
        import psycopg

        try:
            yield
        except TrustError:
            raise
        except (PgdynoError, psycopg.Error) as problem:
            hand = self._disturbed
            if not self._struck or not self._fault_ends_processes:
                hand = hand or self._killed_within(_ENDING_S_MAX)
            if isinstance(problem, PgdynoError) and problem.code == "server-killed":
                hand = hand or problem.message
            if not hand:
                raise
            raise disturbed_from_outside(hand) from problem

    def _killed_within(self, seconds: float) -> str:
        """As ``killed``, once a server that is ending has ended."""
        deadline_s = time.monotonic() + seconds
        while self.cluster.running and time.monotonic() < deadline_s:
            time.sleep(_LOOK_S)
        return killed(self.cluster, self._said.text())

    def close(self) -> None:
        """Let the probes have their server again, if it runs."""
        self._outage.close()

    def acks_folder(self) -> Path:
        """Where the clients of the present load keep their record."""
        return self.folder / f"acks-{self._loads}"


def disturbed_from_outside(hand: str) -> TrustError:
    """The error for a drill that cannot go on because of what somebody else did to its server."""
    return TrustError(
        f"somebody else had a hand in the server, so that this drill says nothing: {hand}",
        code="server-disturbed",
        hint="the kernel's log tells of processes that were killed for want of memory",
    )


def cut_seed(seed: int, number: int) -> int:
    """The seed of a cut in a drill of ``seed``."""
    return random.Random(f"{seed}/{number}").getrandbits(31)
