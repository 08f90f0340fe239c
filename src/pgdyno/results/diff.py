"""The result of ``pgdyno diff``."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from pgdyno.record.part import Number, Part
from pgdyno.results.plans import ComparedPlans


class Pair(Part):
    a: Number | None
    b: Number | None
    ratio: Number | None
    """b / a; null if either is missing or a is 0"""


PairsByName = Annotated[
    dict[str, Pair], Field(description="p50 to p99.99, max and mean, in milliseconds")
]


class Side(Part):
    run_file: str
    name: str
    command: str
    started: str
    status: Literal["running", "done", "failed", "interrupted", "broken"]
    pgdyno_version: str
    distrust: tuple[str, ...]
    over: str
    """The period of the figures"""
    seconds: float
    """Measured time of that period"""


class Different(Part):
    key: str
    """Dotted"""
    a: Any
    b: Any


class Differs(Part):
    spec: tuple[Different, ...]
    settings: tuple[Different, ...]
    server: tuple[Different, ...]
    host: tuple[Different, ...]
    engine: tuple[Different, ...]


class LatencyPairs(Part):
    response: PairsByName
    wait: PairsByName
    service: PairsByName


class ErrorCounts(Part):
    sqlstate: str
    a: int
    b: int


class FailurePairs(Part):
    failed: Pair
    share: Pair
    """Of the transactions that ended"""
    retried: Pair
    skipped: Pair
    errors: tuple[ErrorCounts, ...]


class StatementPairs(Part):
    group: str
    script: str
    statement: str
    done: Pair
    failed: Pair
    mean_ms: Pair
    p99_ms: Pair


class WaitPair(Part):
    """Average active sessions in a wait event"""

    event: str
    """type:event, or running"""
    a: Number
    b: Number
    ratio: Number | None


class LoadFigures(Part):
    """The figures of two runs under load"""

    throughput_tps: Pair
    latency_ms: LatencyPairs
    failures: FailurePairs
    statements: tuple[StatementPairs, ...]
    plans: ComparedPlans | None
    """null: the plans of one run were not looked at"""
    waits: tuple[WaitPair, ...]
    work: Annotated[
        dict[str, Pair],
        Field(description="What is known of CPU, WAL, disks, vacuums and transaction IDs"),
    ]
    beside: Annotated[
        dict[str, Pair],
        Field(description="Statement executed beside the load: its mean time in milliseconds"),
    ]


class Faults(Part):
    a: str
    b: str


class DrillFigures(Part):
    """The figures of two drills"""

    fault: Faults
    drill: dict[str, Pair]


class DiffResult(Part):
    model_config = ConfigDict(title="pgdyno diff --format json")

    schema_version: Literal[1]
    a: Side
    b: Side
    cautions: tuple[str, ...] = Field(min_length=1)
    """The reasons why the ratios are not a verdict"""
    differs: Differs
    figures: LoadFigures | DrillFigures
