"""Cases, samples and contenders of the benchmarks."""

from __future__ import annotations

from typing import Literal, Protocol, get_args

from msgspec import Struct

Script = Literal["select-only", "simple-update", "tpcb-like"]
Transport = Literal["unix", "tcp"]
SCRIPTS: tuple[Script, ...] = get_args(Script)
TRANSPORTS: tuple[Transport, ...] = get_args(Transport)
MANY_CLIENTS = 512
"""Number of clients from which connecting takes seconds, and more CPU than a short slice."""


def startup_runs(case: Case) -> int:
    """Return how often a peer's start-up is measured; the median is subtracted."""
    return 1 if case.clients >= MANY_CLIENTS else 3


class Case(Struct, frozen=True):
    """A workload with a number of clients and a kind of socket."""

    script: Script
    clients: int
    transport: Transport


class Sample(Struct, frozen=True):
    """A slice of a contender, without its start-up and the first transaction of each client."""

    transactions: int
    seconds: float
    cpu_user_s: float
    cpu_system_s: float

    @property
    def throughput_tps(self) -> float:
        """Transactions per second."""
        return self.transactions / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU of the client process per transaction, in microseconds."""
        return (self.cpu_user_s + self.cpu_system_s) / self.transactions * 1e6

    def minus(self, other: Sample) -> Sample:
        """Return the difference to ``other``, such as a start-up that was measured separately."""
        return Sample(
            self.transactions - other.transactions,
            self.seconds - other.seconds,
            self.cpu_user_s - other.cpu_user_s,
            self.cpu_system_s - other.cpu_system_s,
        )


class BenchError(Exception):
    """A benchmark cannot be executed; the message is the reason."""


class Contender(Protocol):
    """A client program under test."""

    @property
    def name(self) -> str:
        """Name in the results, such as ``pgbench -j 2``."""

    def measure(self, case: Case, seconds: float) -> Sample:
        """Measure one slice. Raises BenchError if the program fails or executes nothing."""


def plausible(sample: Sample, name: str) -> Sample:
    """Return the sample. Raises BenchError if its figures are not positive."""
    positive = sample.transactions > 0 and sample.seconds > 0
    if not positive or sample.cpu_user_s + sample.cpu_system_s <= 0:
        raise BenchError(f"{name}: nothing remains without its start-up; the slice is too short")
    return sample
