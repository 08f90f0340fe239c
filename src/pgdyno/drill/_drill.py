"""A drill: a session whose server is broken and verified repeatedly.

:class:`LoadedServer` is the tool of the faults: it starts and ends loads whose acknowledgements are
stored outside the server, keeps the probes away from a server that is down, and restores the data
directory after a cut that damaged it. All its choices follow from the options' seed; only the
server and the machine vary.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec.structs import replace

from pgdyno.conduct import Session
from pgdyno.drill._bounds import Bound
from pgdyno.drill._evidence import NewLog, disturbed_from_outside, interference, outside_kill
from pgdyno.drill._verify import Crashed, verify
from pgdyno.drill.model import DrillOptions, Verified
from pgdyno.drill.witnesses import (
    Witnesses,
    prepare,
    renew,
    scripts_set_commit,
    witnessed,
)
from pgdyno.errors import PgdynoError, TrustError
from pgdyno.record import AckLedger, read_acks
from pgdyno.record.cut import Cut, Facts, Outage, Proof
from pgdyno.remedy import Circumstances, circumstances
from pgdyno.server import Cluster
from pgdyno.server.directories import shared_directory
from pgdyno.server.local.clean_copy import CleanCopy
from pgdyno.server.replication.receivers import Receivers

LOAD_S = 1.1
"""Default duration of the load before a fault."""
# A fault at a fixed time after the start would always meet the same phase of the server.
_LOAD_SPREAD = (0.75, 1.25)
_ENDING_S_MAX = 2.0
_POLL_S = 0.02


class LoadedServer:
    """A loaded server, with the tools that a fault needs to break and verify it."""

    def __init__(
        self,
        session: Session,
        options: DrillOptions,
        bound: Callable[[Circumstances], Bound],
        *,
        ends_processes: bool,
    ) -> None:
        """``session`` has a running server that pgdyno started; ``bound`` and ``ends_processes``
        are the fault's."""
        assert session.target.cluster is not None, "drills are for servers that pgdyno started"
        self.session = session
        self.options = options
        self._fault_ends_processes = ends_processes
        self.cluster: Cluster = session.target.cluster
        self.directory = self.cluster.directory / "drill"
        """Directory for temporary files of the drill; removed with the cluster."""
        shared_directory(self.directory)
        self.circumstances = replace(
            circumstances(session.spec, session.target.facts["settings"]),
            scripts_choose=scripts_set_commit(session.workloads),
        )
        """The settings and disks in force before any fault."""
        self.bound = bound(self.circumstances)
        """The loss that the documentation allows the fault to cause."""
        self.witnesses: Witnesses
        """The known contents of the database before the present load."""
        self._prepared: Witnesses
        self.load_began_ns = 0
        self._clean_copy = CleanCopy(self.cluster, self.directory / "clean-copy")
        self._damaged = False
        self._log = NewLog(self.cluster)
        self._disturbed = ""
        self._fault_injected = False
        self._loads = 0
        self._began_s = time.monotonic()
        self._outage = ExitStack()

    def prepare(self) -> None:
        """Create the witness tables and the clean copy; once, before the first cut."""
        self.session.watcher.phase("creating witness tables and a clean copy of the data")
        with self.session.connect() as connection:
            self.witnesses = self._prepared = prepare(
                connection,
                self.session.workloads,
                unlogged=self.session.spec.workload.unlogged,
            )
        with self.session.probes.rest():
            self.cluster.stop()
            self._clean_copy.take()
            self.cluster.start()
        self._log = NewLog(self.cluster)  # The log so far contains pgdyno's own shutdown.

    @property
    def receivers(self) -> Receivers:
        """The server's standbys and WAL receivers, perhaps none."""
        receivers = self.session.target.receivers
        assert receivers is not None, "every server that pgdyno started has them"
        return receivers

    def restore_before_next_load(self) -> None:
        """Mark the server as unfit: the next load begins with the clean copy."""
        self._damaged = True

    def plan(self) -> Iterator[tuple[int, random.Random, int]]:
        """Yield number, random numbers and seed of each cut, until all are done or the budget is
        spent.

        The random numbers of a cut follow from its seed alone.
        """
        for number in range(1, self.options.cuts + 1):
            spent_s = time.monotonic() - self._began_s
            if self.options.budget_s is not None and spent_s > self.options.budget_s:
                return
            seed = cut_seed(self.options.seed, number)
            yield number, random.Random(seed), seed

    def begin_load(self) -> int:
        """Start all clients on a running server; return time zero of the load in monotonic ns.

        The data directory is first restored, and standbys rebuilt, if the last cut damaged it.
        """
        restore, self._damaged = self._damaged, False
        if restore:
            self._clean_copy.restore()
            self.witnesses = self._prepared
        self.cluster.start()
        if restore:
            self.receivers.rebuild()
        else:
            self.receivers.wait_caught_up()
        self._outage.close()
        self._log, self._disturbed, self._fault_injected = NewLog(self.cluster), "", False
        with self.session.connect() as connection:
            self.witnesses = renew(connection, self.witnesses)
        self._loads += 1
        self.load_began_ns = self.session.start_load(
            acks=witnessed(self.acks_directory()),
            outage_expected=True,
            # With one seed for all loads, each would touch the same rows.
            seed=cut_seed(self.options.seed, self._loads),
        )
        self.session.wait_connected()
        return self.load_began_ns

    def let_run(self, rng: random.Random) -> None:
        """Let the load run for the requested time, or the default, varied by ``rng``."""
        self.session.wait(rng.uniform(*_LOAD_SPREAD) * (self.options.load_s or LOAD_S))

    def load_until_fault(self, rng: random.Random) -> None:
        """Run a load until it is time to inject the fault, and begin the outage."""
        self.begin_load()
        self.let_run(rng)
        self.begin_outage()

    def begin_outage(self) -> None:
        """Keep the probes away from the server until the next load begins.

        Call it just before the fault.
        """
        self._disturbed = interference(self.cluster, self._log.text())
        self._fault_injected = True
        self._outage.enter_context(self.session.probes.rest())

    def look_for_kills(self) -> None:
        """Check for outside kills until now; for a fault that ends no process itself."""
        self._disturbed = self._disturbed or outside_kill(self.cluster, self._log.text())

    @property
    def disturbed(self) -> str:
        """Outside interference with the server before the fault; '' if none is known."""
        return self._disturbed

    def end_load(self, drain_ms: int = 0) -> AckLedger:
        """Stop the load, by default at once, and read its ack ledger."""
        self.session.interrupt_load(drain_ms)
        return read_acks(self.acks_directory())

    def verify(self, acks: AckLedger, cut_ns: int) -> Verified:
        """Verify the database; the server is down before and afterwards.

        ``cut_ns`` is the time of the fault.
        """
        crashed = Crashed(cluster=self.cluster, acks=acks, cut_ns=cut_ns, witnesses=self.witnesses)
        verified = verify(crashed)
        emptied = self.session.spec.workload.unlogged and verified.outcome == "lost"
        harmed = verified.outcome in ("refused", "corrupt")
        self._damaged = emptied or harmed or bool(self._disturbed)
        shutil.rmtree(self.acks_directory())
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
        outage: Outage | None = None,
        facts: Facts | None = None,
    ) -> Cut:
        """Return a cut of this drill; ``cut_ns`` is within the last load."""
        at_ms = (cut_ns - self.load_began_ns) / 1e6
        all_facts = dict(facts or {})
        if disturbed := self._disturbed or (verified.disturbed if verified else ""):
            all_facts["disturbed"] = disturbed
            sentence = f"the server was interfered with from outside: {disturbed}"
            proof = Proof(happened=False, sentence=sentence, facts=proof.facts)
        cut = Cut(
            number=number,
            variant=variant,
            seed=seed,
            at_ms=at_ms,
            proof=proof,
            outcome="no-fault",
            outage=outage,
            facts=all_facts,
        )
        return verified.of(cut) if verified else cut

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Raise a TrustError for an error within the block that outside interference caused."""
        import psycopg

        try:
            yield
        except TrustError:
            raise
        except (PgdynoError, psycopg.Error) as problem:
            disturbed = self._disturbed
            if not self._fault_injected or not self._fault_ends_processes:
                disturbed = disturbed or self._killed_within(_ENDING_S_MAX)
            if isinstance(problem, PgdynoError) and problem.code == "server-killed":
                disturbed = disturbed or problem.message
            if not disturbed:
                raise
            raise disturbed_from_outside(disturbed) from problem

    def _killed_within(self, seconds: float) -> str:
        """As :func:`outside_kill`, after a server that is ending has ended."""
        deadline_s = time.monotonic() + seconds
        while self.cluster.running and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        return outside_kill(self.cluster, self._log.text())

    def close(self) -> None:
        """Let the probes use the server again."""
        self._outage.close()

    def acks_directory(self) -> Path:
        """Return the directory of the present load's ack ledger."""
        return self.directory / f"acks-{self._loads}"


def cut_seed(seed: int, number: int) -> int:
    """Return the seed of cut ``number`` in a drill of ``seed``."""
    return random.Random(f"{seed}/{number}").getrandbits(31)
