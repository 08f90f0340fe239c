"""What is measured and where: cases, samples, and the contenders between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

Script = Literal["select-only", "simple-update", "tpcb-like"]
Transport = Literal["unix", "tcp"]
SCRIPTS: tuple[Script, ...] = get_args(Script)
TRANSPORTS: tuple[Transport, ...] = get_args(Transport)
MANY_CLIENTS = 512
"""From here on connecting takes seconds, and more CPU than a short slice."""


def startup_runs(case: Case) -> int:
    """How often a peer's start-up is measured, of which the median is taken away."""
    return 1 if case.clients >= MANY_CLIENTS else 3


@dataclass(frozen=True)
class Case:
    """One workload at one number of clients over one kind of socket."""

    script: Script
    clients: int
    transport: Transport


@dataclass(frozen=True)
class Sample:
    """One slice of one contender, without its start-up and the first transaction of each client."""

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
        """What is left when ``other``, such as a start-up measured apart, is taken away."""
        return Sample(
            self.transactions - other.transactions,
            self.seconds - other.seconds,
            self.cpu_user_s - other.cpu_user_s,
            self.cpu_system_s - other.cpu_system_s,
        )


class BenchError(Exception):
    """A benchmark that cannot be carried out; the message says why."""


class Contender(Protocol):
    """A client program under test."""

    @property
    def name(self) -> str:
        """As in the results: ``pgbench -j 2``."""

    def measure(self, case: Case, seconds: float) -> Sample:
        """One slice. Raises BenchError when the program fails or does nothing."""


def plausible(sample: Sample, name: str) -> Sample:
    """The sample, if anything can be reckoned from it."""
    positive = sample.transactions > 0 and sample.seconds > 0
    if not positive or sample.cpu_user_s + sample.cpu_system_s <= 0:
        raise BenchError(f"{name}: nothing is left after its start-up; the slice is too short")
    return sample
