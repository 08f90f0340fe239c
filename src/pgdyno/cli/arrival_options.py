"""Options that say at which moments transactions begin."""

from typing import Annotated

import click
from msgspec import Struct

from pgdyno.cli.grouping import sets
from pgdyno.cli.types import LatencyLimit, Rate, Speed


class ArrivalOptions(Struct, frozen=True, kw_only=True):
    """Arrivals: the moments at which transactions begin."""

    rate: Annotated[
        float | None,
        sets(
            "clients.arrival.rate",
            "-R",
            "--rate",
            type=Rate(),
            metavar="TPS",
            help="Open loop: start this many transactions per second, over all clients.",
        ),
    ] = None
    speed: Annotated[
        float | None,
        click.option(
            "--speed",
            type=Speed(),
            help="Begin transactions this many times as often, in all client groups with a rate:"
            " 2x, 0.5 or 50%.",
        ),
    ] = None
    latency_limit: Annotated[
        int | None,
        sets(
            "clients.latency_limit",
            "-L",
            "--latency-limit",
            type=LatencyLimit(),
            help="Count transactions above this latency as late (a bare number is in ms); with -R,"
            " skip those that are late before they are sent.",
        ),
    ] = None
    """In microseconds."""
    process: Annotated[
        str | None,
        sets(
            "clients.arrival.process",
            "--process",
            type=click.Choice(["poisson", "constant"]),
            help="Spacing of arrivals with -R (default poisson).",
        ),
    ] = None
    when_busy: Annotated[
        str | None,
        sets(
            "clients.arrival.when_busy",
            "--when-busy",
            type=click.Choice(["queue", "skip"]),
            help="With -R, queue or skip transactions that are due while all clients are busy"
            " (default queue).",
        ),
    ] = None
    queue_max: Annotated[
        int | None,
        sets(
            "clients.arrival.queue_max",
            "--queue-max",
            type=click.IntRange(1),
            metavar="N",
            help="Maximum length of that queue; transactions beyond it are skipped.",
        ),
    ] = None
