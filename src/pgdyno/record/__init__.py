"""The run file: one SQLite file per run, one writer (``Recorder``), one reader (``RunFile``).

Everything that pgdyno concludes is computed from run files, so any run can be analysed again.
"""

from pgdyno.record._distribution import PERCENTILES, Distribution, samples_needed
from pgdyno.record._kinds import SliceKind, Suspicion, TrialDecision, TrialKind, WhyUnusable
from pgdyno.record._reader import RunFile, throughput_tps
from pgdyno.record._recorder import CURRENT, Listener, Recorder
from pgdyno.record._resume import GAP, Continuation, discard_beginning
from pgdyno.record._rows import (
    DrillRow,
    ErrorTotal,
    Event,
    GeneratorTotal,
    GroupInterval,
    HttpTotal,
    Interval,
    Ledger,
    LockLink,
    LockQueueTotal,
    LookRow,
    RunInfo,
    Sighting,
    Slice,
    StatementCount,
    Trial,
    WaitTotal,
)
from pgdyno.record._samples import Series
from pgdyno.record._statement_rows import (
    CalledFunction,
    CountedStatement,
    Place,
    PlanOverTime,
    StatementPlan,
    StatementTotal,
    StatementTrial,
    Suspect,
    TablePartition,
    TableStatistics,
    TableTrigger,
    UnusableIndex,
    UnusualSetting,
)
from pgdyno.record.acks import AckLedger, AckLoad, AckOutcome, AckScript, read_acks
from pgdyno.record.failures import error_lines, position_of, server_details
from pgdyno.record.opening import is_run_file, refusing_invalid

__all__ = [
    "CURRENT",
    "GAP",
    "PERCENTILES",
    "AckLedger",
    "AckLoad",
    "AckOutcome",
    "AckScript",
    "CalledFunction",
    "Continuation",
    "CountedStatement",
    "Distribution",
    "DrillRow",
    "ErrorTotal",
    "Event",
    "GeneratorTotal",
    "GroupInterval",
    "HttpTotal",
    "Interval",
    "Ledger",
    "Listener",
    "LockLink",
    "LockQueueTotal",
    "LookRow",
    "Place",
    "PlanOverTime",
    "Recorder",
    "RunFile",
    "RunInfo",
    "Series",
    "Sighting",
    "Slice",
    "SliceKind",
    "StatementCount",
    "StatementPlan",
    "StatementTotal",
    "StatementTrial",
    "Suspect",
    "Suspicion",
    "TablePartition",
    "TableStatistics",
    "TableTrigger",
    "Trial",
    "TrialDecision",
    "TrialKind",
    "UnusableIndex",
    "UnusualSetting",
    "WaitTotal",
    "WhyUnusable",
    "discard_beginning",
    "error_lines",
    "is_run_file",
    "position_of",
    "read_acks",
    "refusing_invalid",
    "samples_needed",
    "server_details",
    "throughput_tps",
]
