"""The load engine (Rust, crates/load): clients that execute scripts, on one clock, with complete
counts; and the recording disk (crates/blackout), with the power cuts that are made from its logs.

Times are nanoseconds of CLOCK_MONOTONIC, the clock of ``time.monotonic_ns()``. Everything here
may be called from any thread; calls that wait release the GIL. The TypedDicts are here for type
checkers only: import them under ``if TYPE_CHECKING``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict, final, type_check_only

class EngineError(Exception):
    """An error of the engine.

    ``code`` is stable: ``config-invalid``, ``tls-unsupported``,
    ``connection-failed``, ``connection-refused``, ``authentication-failed``, ``database-missing``,
    ``connections-exhausted``, ``server-starting``, ``protocol-error``, ``group-unknown``,
    ``not-started``, ``already-started``, ``system-limit``, ``histogram-invalid``,
    ``acks-unwritable``, ``log-unwritable``, of a disk ``disk-image``, ``disk-mount``,
    ``disk-log``, ``cut-invalid``, and for a ScriptError ``script-invalid``. ``message`` has no
    final period;
    where the server refused, it is PostgreSQL's.
    """

    code: str
    message: str
    hint: str | None

class ScriptError(EngineError):
    """A script cannot be used; ``line`` and ``column`` count from 1."""

    file: str
    line: int
    column: int

@type_check_only
class BuildInfo(TypedDict):
    """The engine's version, build profile and target."""

    version: str
    profile: Literal["release", "debug"]
    target: str

@type_check_only
class SentStatement(TypedDict):
    """A statement that can be prepared as it is; place in the script from 1.

    ``parameterized`` has ``$1``, ``$2`` … in place of variables. ``simple_only``: it is sent by the
    simple protocol in any case. ``expect`` is the SQLSTATE that the script expects.
    """

    text: str
    parameterized: str
    simple_only: bool
    expect: str | None
    line: int
    column: int

@type_check_only
class ScriptFacts(TypedDict):
    """The statements of a script, and the variables that it uses and does not set itself."""

    statements: list[str]
    sent: list[SentStatement]
    variables_used: list[str]

@type_check_only
class ScriptRow(TypedDict):
    """Counts of one script of one group in one interval.

    The histograms are HDR V2 deflate, see :class:`Histogram`, each of all transactions that are
    done: response = intended → done, wait = intended → sent, service = sent → done. The wait has
    three parts: ``pool_wait`` in the pool's queue, ``connect`` from when the client asked for a
    connection of its own until it had it (pauses after failures included), and ``client_lag``, the
    rest. ``late`` of those done took longer than the group's limit.
    ``backlog`` is as of the interval's end.
    """

    group: str
    script: str
    intended: int
    sent: int
    done: int
    failed: int
    skipped: int
    cancelled: int
    backlog: int
    retried: int
    expected_errors: int
    late: int
    response: bytes
    wait: bytes
    client_lag: bytes
    pool_wait: bytes
    connect: bytes
    service: bytes

@type_check_only
class HttpRow(TypedDict):
    """Requests of one group in one interval.

    ``reused`` are those over a connection that had served another, ``redirected`` those that a
    redirect led to; ``status_1xx`` and so on are responses. ``closed_by_server`` are connections
    that the server closed without a request failing by it. Bytes are without those of TLS.
    """

    requests: int
    reused: int
    redirected: int
    status_1xx: int
    status_2xx: int
    status_3xx: int
    status_4xx: int
    status_5xx: int
    closed_by_server: int
    sent_bytes: int
    received_bytes: int

@type_check_only
class GroupRow(TypedDict):
    """Connections of one group in one interval.

    ``clients`` and ``connections`` are as of the interval's end, and so are ``unanswered``, clients
    that have waited for an answer for 2 s or longer, ``unanswered_us_max`` at the most;
    ``reconnects`` are those of ``connects`` that replaced a lost connection. The histograms are of
    establishing one: ``total`` is made of the socket (``tcp``, also for a Unix socket), ``tls``
    (only of those that use it), ``auth`` until the server accepted the client, and ``ready`` until
    it took statements. ``silence`` is of connections to a database that were closed from the other
    side without a word: from the last byte in either direction to that.
    """

    group: str
    clients: int
    connections: int
    connects: int
    reconnects: int
    connect_failures: int
    unanswered: int
    unanswered_us_max: int
    tcp: bytes
    tls: bytes
    auth: bytes
    ready: bytes
    total: bytes
    silence: bytes
    http: HttpRow | None

@type_check_only
class StatementRow(TypedDict):
    """Counts of one statement; ``position`` is its place in the script, from 0.

    ``untouched`` are those done that were to change or delete rows, and there were none. Of a
    request ``first_byte`` is the time to the first byte of the response.
    """

    group: str
    script: str
    position: int
    statement: str
    done: int
    failed: int
    untouched: int
    service: bytes
    first_byte: bytes | None

@type_check_only
class ErrorRow(TypedDict):
    """Errors of one kind, with the first message seen.

    ``sqlstate`` is the server's, ``http-`` with the status of a response, or a code of the engine:
    ``connection-lost``, ``connect-refused``, ``no-response``, ``reset``, ``truncated``,
    ``bad-response``, ``timeout-first-byte``, ``timeout-body``, ``body-mismatch``,
    ``body-too-long``, ``extract-missing``, ``redirect-loop``, ``redirect-elsewhere``,
    ``connect-failed``, ``connect-timeout``, ``pool-timeout``, ``protocol-error``, ``script-error``,
    ``statement-unsendable``, ``gset-rows``, ``gset-name``, ``transaction-left-open``,
    ``expected-error-missing``, ``commit-rolled-back``, and ``other-errors`` when there are more
    kinds than are distinguished. ``script`` and ``file`` are empty for what happened outside of
    transactions: then ``statement`` is ``connect``, or empty for a connection lost while idle.
    ``line`` is of the file, ``client`` the first that it happened to. ``detail``, ``hint`` and
    ``context`` are the server's; ``excerpt`` is the line that it points at and a mark below;
    ``advice`` is pgdyno's. Each is empty where there is none.
    """

    group: str
    script: str
    file: str
    line: int | None
    statement: str
    client: int | None
    sqlstate: str
    expected: bool
    retried: bool
    count: int
    message: str
    detail: str
    hint: str
    context: str
    excerpt: str
    advice: str

@type_check_only
class ThreadRow(TypedDict):
    """The audit of a thread by itself.

    ``passes`` of its event loop; ``send_late`` is due, and a connection at hand → first byte.
    """

    thread: int
    cpu_user_us: int
    cpu_system_us: int
    run_queue_delay_us: int
    passes: int
    loop_stall_us_max: int
    send_late: bytes

@type_check_only
class Interval(TypedDict):
    """Counts from ``started_ns`` to ``ended_ns``, summed over threads.

    ``reports`` has errors one by one with ``verbose_errors``, the first 1000 of each thread.
    """

    started_ns: int
    ended_ns: int
    tag: int | None
    scripts: list[ScriptRow]
    groups: list[GroupRow]
    statements: list[StatementRow]
    errors: list[ErrorRow]
    reports: list[ErrorRow]
    threads: list[ThreadRow]

@type_check_only
class LoadFacts(TypedDict):
    """The reactor chosen at the start and the reason, and the threads' CPUs in turn and nice level,
    where these differ from the process's."""

    reactor: Literal["io_uring", "mio"]
    reactor_why: str
    cpus: list[int] | None
    nice: int | None

@type_check_only
class Fatal(TypedDict):
    """The error that ended a load."""

    code: str
    message: str
    hint: str | None

@type_check_only
class SampledStatement(TypedDict):
    """A statement as it was sent; ``position`` is its place among the script's statements, from 0.

    ``text`` has the values in it, as in the simple protocol; ``parameterized`` has places for
    ``parameters``: variable and value, as text, None for NULL. It is None where the simple protocol
    is used in any case. ``captures`` is the prefix of the variables that ``\\gset`` makes of its
    row, None without. Rows that ``\\rows`` makes up are in it, unless they have more than 10,000
    values or are the data of COPY; their parameters have '' in place of a variable.
    """

    position: int
    text: str
    parameterized: str | None
    parameters: list[tuple[str, str | None]]
    captures: str | None

@type_check_only
class SampledTransaction(TypedDict):
    """A transaction as it was sent, its statements in the order in which they were sent, 200 at
    most."""

    group: str
    script: str
    statements: list[SampledStatement]

def build_info() -> BuildInfo:
    """Version, build profile and target of the engine."""

def builtin_scripts() -> dict[str, str]:
    """pgbench's built-in scripts: name → text."""

def check_script(text: str, file: str, defined: Sequence[str] = ()) -> ScriptFacts:
    """Parse a script; ``file`` is its name in messages, ``defined`` are variables that it need not
    set. Raises ScriptError."""

@final
class MadeRows:
    """The data of a COPY … FROM STDIN, in its text format, that ``\\rows`` makes."""

    def __init__(
        self, text: str, file: str, variables: Sequence[tuple[str, str]], seed: int
    ) -> None:
        """``text`` has ``\\set`` and, at its end, the COPY; ``file`` is its name in messages.
        Raises ScriptError."""

    def piece(self, bytes: int) -> bytes | None:
        """The next rows, so many bytes or somewhat more; None after the last. Raises
        ScriptError."""

def student_t_cdf(freedom: float, t: float) -> float:
    """Probability that Student's t with ``freedom`` degrees of freedom is at most ``t``."""

def student_t_quantile(freedom: float, p: float) -> float:
    """The value below which Student's t is with probability ``p``. Raises ValueError."""

def beta_quantile(a: float, b: float, p: float) -> float:
    """The value below which a beta variable is with probability ``p``. Raises ValueError."""

def fisher_exact(table: Sequence[int]) -> float:
    """p of Fisher's exact test, two-sided, of the 2 by 2 table given row by row."""

@final
class Histogram:
    """Counts of durations in nanoseconds: HDR, 2 significant digits, 1 hour at most.

    Values above are counted as an hour. Percentiles, ``max``, ``min`` and ``mean`` have the
    histogram's precision (1 %), and are 0 when it is empty.
    """

    def __init__(self) -> None: ...
    @staticmethod
    def decode(encoded: bytes) -> Histogram:
        """From ``encode()``, or any HDR library's V2 encoding. Raises EngineError."""

    def encode(self) -> bytes:
        """HDR V2, deflated."""

    def add(self, other: Histogram) -> None: ...
    def add_encoded(self, encoded: bytes) -> None:
        """Add what ``encode()`` gave. Raises EngineError."""

    def record(self, ns: int, count: int = 1) -> None: ...
    def percentile(self, p: float) -> int:
        """The duration in ns that ``p`` per cent of the values do not exceed."""

    @property
    def count(self) -> int: ...
    @property
    def max(self) -> int: ...
    @property
    def min(self) -> int: ...
    @property
    def mean(self) -> float: ...
    def count_between(self, lo_ns: int, hi_ns: int) -> int:
        """Values between the two, both included."""

    def buckets(self) -> list[tuple[int, int]]:
        """Buckets that are not empty: (highest duration in ns, count)."""

@final
class Load:
    """A load: client groups that execute scripts on a server.

    The configuration is JSON; every key except those marked has a default::

        {"target": {"hosts" (required): [{"host" (required; a directory is a Unix socket's),
                               "hostaddr", "port" (required)}],
                    "target_session_attrs": "any", "load_balance_hosts": "disable",
                    "user" (required), "password", "database" (required), "application_name",
                    "options", "sslmode": "prefer", "sslnegotiation": "postgres",
                    "sslrootcert", "sslcert", "sslcertmode": "allow", "sslkey", "sslpassword",
                    "sslcrl", "sslsni": true, "ssl_min_protocol_version": null | "TLSv1.2" |
                    "TLSv1.3", "ssl_max_protocol_version", "channel_binding": "prefer",
                    "require_auth", "min_protocol_version": "3.0",
                    "max_protocol_version": "3.0" | "3.2"},
         "threads": 1, "seed": null, "protocol": "prepared" | "extended" | "simple",
         "parameters": "text" | "binary",
         "acks": {"directory" (required), "label": null (a number for the ledger's header)} | null,
         "exit_on_abort": false (the first failure for good, or lost connection, ends the load),
         "session": null (SQL that every session executes first, as ``set_session`` gives later),
         "log": {"prefix" (required), "sampling_rate": null, "aggregate_s": null,
                 "failures_detailed": false} | null, "verbose_errors": false,
         "max_tries": 10 (0: no limit), "connect_timeout_ms": 10000,
         "connecting_max": 100 | null (connections on their way at once; those that transactions
         open with reconnect_every count only after a failure), "backoff_ms_min": 50,
         "backoff_ms_max": 2000, "give_up_after_ms": 30000,
         "groups" (required): [
            {"name" (required), "clients" (required),
             "schedule": [{"at_ms", "clients", "ramp_ms": 0}],
             "http": {"host" (required), "port" (required), "tls": False, "verify": True,
                      "ca_file": null (those of the system), "timeout_ms": 60000,
                      "cookies": True, "body_bytes_max": 8388608},
             "arrival": {"process": "constant" | "poisson",
                         "profile": {"kind": "segments", "segments": [{"duration_ms", "rate_from",
                                     "rate_to"}], "repeat": false}
                                  | {"kind": "sine", "mean", "amplitude", "period_ms", "phase": 0},
                         "when_busy": "queue" | "skip", "queue_max": 1000000} | null,
             "latency_limit_us": null,
             "pool": {"max", "min_idle": 0, "max_wait_ms": 30000, "max_lifetime_ms": null,
                      "idle_timeout_ms": null,
                      "validation": {"query": "select 1", "after_idle_ms": 0} | null} | null,
             "instances": 1, "application_name": null (that of the target),
             "connection": {"reconnect_every": null, "slow_start": true},
             "idle": false, "hold_open_ms": 0, "witness": null (SQL), "think_ms": 0,
             "transactions": null, "variables": {},
             "scripts" (required): [{"name", "text", "file", "weight": 1}]}]}

    With ``http`` a group's scripts are requests to that web server, and it uses no ``target``,
    which may be left out if all groups do so. ``timeout_ms`` limits the time to the first byte of a
    response, and from there to its end; ``body_bytes_max`` the body that a script looks at.

    The target's keys mean what libpq's parameters of that name mean, with libpq's defaults and
    files; ``sslcertmode`` cannot be ``require``. Hosts are tried in order for each connection.

    With a schedule, a group begins with no client if the first step is at 0, else with
    ``clients``; each step goes in a straight line to its ``clients`` over ``ramp_ms``. Without a
    pool each client holds a connection of its own; the first transaction of a client is intended
    when its connection is there. Transactions that fail with 40001 or 40P01 are tried again, from
    the same random numbers and variables. With ``transactions`` each client ends after so many, and
    the load stops when all have; the clients of an open loop share theirs, ``clients`` times so
    many. The ``witness`` is one statement, executed just before each
    script's last COMMIT (a script without a block becomes one; where that is impossible it comes
    last, by itself); its ``:client_id`` and ``:txn`` are those of the ack ledger, whatever the
    script does to its own. From the same ``seed``, the first group's clients draw the numbers
    that those of ``pgbench -j 1 --random-seed`` draw.
    With binary parameters, only the first execution of a statement sends text;
    all connections take the types from its answer.

    With an ``arrival`` the group is an open loop: transactions are due by a rate per second,
    counted from the start, over all of its clients; the last segment's ``rate_to`` holds if they
    are not repeated; ``phase`` is in turns. A client that is free takes the oldest that is due.
    While all are busy, up to ``queue_max`` wait, and the newest beyond that are skipped; with
    ``skip`` none waits. A transaction that takes longer than ``latency_limit_us`` is ``late``; in
    an open loop a transaction that is later than that before it is sent is skipped.

    Each of the ``instances`` has a pool of its own, and clients take turns: client N belongs to
    instance N modulo their number. A pool opens ``min_idle`` connections at the start and keeps so
    many idle; it closes others that have been idle for ``idle_timeout_ms``, and any that is
    ``max_lifetime_ms`` old, or up to a tenth less. One that was idle for ``after_idle_ms`` is
    validated before a client gets it; if that fails it is replaced, and the client waits. After
    ``reconnect_every`` transactions a connection is closed; the next transaction makes another
    within its wait. With ``slow_start`` connections come back one, two, four … at a time after a
    failure. ``idle`` clients connect and never send; they need no scripts. ``hold_open_ms`` is a
    pause before each COMMIT; a script without BEGIN is put into a block.
    """

    def __init__(self, config_json: str) -> None:
        """Check the configuration; nothing is connected yet. Raises EngineError, ScriptError."""

    def start(self, tag: int | None = None) -> int:
        """Make one connection as a check, then start; return the schedules' zero in ns.

        Intervals carry ``tag`` from the first on, until the next ``end_interval()``.

        Raises EngineError, with PostgreSQL's message where the server refuses.
        """

    def poll(self) -> list[Interval]:
        """Finished intervals since the last call, in order; never blocks."""

    def end_interval(self, tag: int | None) -> int:
        """End the current interval now; the next ones carry ``tag``. Return the time in ns."""

    def set_clients(self, group: str, n: int) -> None:
        """Change a group's clients now; its schedule ends. Surplus ones finish first."""

    def set_pool_max(self, group: str, n: int | None) -> None:
        """Change a pool's limit now; None gives each client a connection of its own."""

    def set_rate(self, group: str, factor: float) -> None:
        """Multiply the rate of a group with an ``arrival`` from now on; 1 is as configured."""

    def set_session(self, sql: str) -> None:
        """Have every session execute ``sql`` before its next transaction, and new ones before their
        first. It is not part of the transaction and must undo the previous call's settings.
        """

    def facts(self) -> LoadFacts | None:
        """How the load runs; None before it is started."""

    def samples(self) -> list[SampledTransaction]:
        """Transactions that ended well, as they were sent: the last 8 that were kept of each
        script, the oldest first."""

    def state(self) -> Literal["new", "running", "stopping", "stopped"]: ...
    def stop(self, drain_ms: int) -> None:
        """Start no more transactions, wait up to ``drain_ms`` for active ones, cancel the rest.

        The last intervals are there to ``poll()`` afterwards.
        """

    def connections(self) -> int:
        """Number of established connections, of all groups."""

    def fatal(self) -> Fatal | None:
        """The error that ended the load, if any: no connection for ``give_up_after_ms``."""

@type_check_only
class RecordedFacts(TypedDict):
    """The contents of a recording; bytes of writes and of ranges zeroed."""

    writes: int
    bytes: int
    flushes: int

@type_check_only
class DiskFacts(TypedDict):
    """The recording of a disk, from ``first_ns`` to ``last_ns``; ``torn`` if it has no end."""

    disk_bytes: int
    writes: int
    bytes: int
    flushes: int
    first_ns: int
    last_ns: int
    torn: bool

@type_check_only
class CutTime(TypedDict):
    """A time for a cut, and the writes that are pending then on all disks."""

    at_ns: int
    why: Literal["pending", "flush-edge", "mark", "random"]
    pending_writes: int
    pending_bytes: int

@type_check_only
class CutFacts(TypedDict):
    """A cut in numbers: sectors undecided, of them kept (something written) and garbage."""

    at_ns: int
    seed: int
    sector_bytes: int
    pending_writes: int
    sectors: int
    kept: int
    garbage: int

@final
class DiskServer:
    """A one-file FUSE file system: the file ``disk`` is a disk, to be put on a loop device.

    The configuration is JSON: ``{"image": path, "mount_point": path, "flush_ms": 0.0,
    "write_bytes_per_s": null}``. A flush takes its time and is recorded; the image file itself is
    not forced out to this machine's disk.
    """

    def __init__(self, config_json: str) -> None:
        """Mount the disk. Raises EngineError."""

    def serve(self) -> None:
        """Serve the disk until it is unmounted; to be called once, from a thread of its own."""

    def hurry(self) -> None:
        """Remove the flush delay and the bandwidth limit, so that an unmount takes no time."""

    def fail(self) -> None:
        """Answer every request with EIO from now on, once active ones have ended."""

    def start_recording(self, base: Path, log: Path) -> None:
        """Copy the disk to ``base`` and record to ``log`` from then on.

        No write falls in between, and what was written before counts as durable. Neither file may
        exist yet. Raises EngineError.
        """

    def stop_recording(self) -> RecordedFacts | None:
        """End the log. None without a recording; raises EngineError when the log is incomplete."""

@final
class DiskLogs:
    """The logs of disks that ran at the same time, numbered in the order of ``paths``.

    A write is durable at T when it ended before the start of a flush that ended by T, and pending
    when it began by T and is not durable.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        """Read the logs' indexes; a torn end is left out. Raises EngineError."""

    def facts(self) -> list[DiskFacts]:
        """The recordings, disk by disk."""

    def ranked(self, count: int, seed: int, marks_ns: Sequence[int]) -> list[CutTime]:
        """At most ``count`` times for cuts, in their order; marks are checkpoints, for example."""

    def cut(
        self,
        at_ns: int,
        seed: int,
        sector_bytes: int,
        keep: Literal["subset", "none", "all", "garbage"],
    ) -> Cut:
        """The power cut of all disks at a time; the same arguments give the same cut.

        ``keep``: ``none`` and ``all`` of what is pending, a ``subset`` of its sectors, or a subset
        with ``garbage`` among it: zeros, noise, shorn writes. Raises EngineError.
        """

    def advance(self, disk: int, image_path: Path, at_ns: int) -> None:
        """Apply what is durable at a time to a rolling image, which began as the base image.

        Times only go forward, for each image. Raises EngineError.
        """

@final
class Cut:
    """The outcome of a power cut for the sectors that were pending."""

    @property
    def sectors(self) -> list[tuple[int, int, int]]:
        """Disk, offset in bytes, version of each undecided sector, by disk and offset.

        Versions: 0 as before, n as after its nth pending write, -1 zeros, -2 noise, -3 shorn.
        The same list each time: not to be changed.
        """

    def facts(self) -> CutFacts:
        """The cut in numbers."""

    def without(self, indices: Sequence[int]) -> Cut:
        """The same cut with these of ``sectors`` as before the pending writes."""

    def only(self, indices: Sequence[int]) -> Cut:
        """The same cut with all other sectors as before the pending writes."""

    def write(self, disk: int, image_path: Path) -> None:
        """Put one disk's sectors onto a copy of its rolling image, advanced to the cut's time."""
