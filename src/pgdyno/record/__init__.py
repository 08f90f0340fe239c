"""The run file: one SQLite file per run, one writer (``Recorder``), one reader (``RunFile``).

Everything that pgdyno concludes is computed from run files, so any run can be analysed again.
"""

from pgdyno.record._distribution import PERCENTILES, Distribution
from pgdyno.record._error_text import error_lines, position_of, server_details
from pgdyno.record._reader import RunFile, throughput_tps
from pgdyno.record._recorder import CURRENT, Recorder
from pgdyno.record._rows import (
    CutRow,
    DrillRow,
    ErrorTotal,
    Event,
    FindingRow,
    GeneratorTotal,
    GroupInterval,
    Interval,
    Ledger,
    RunInfo,
    Sighting,
    Slice,
    StatementTotal,
    Trial,
    WaitTotal,
)
from pgdyno.record.acks import AckLedger, AckLoad, AckScript, Outcome, read_acks
from pgdyno.record.opening import is_run_file, refusing_invalid

__all__ = [
    "CURRENT",
    "PERCENTILES",
    "AckLedger",
    "AckLoad",
    "AckScript",
    "CutRow",
    "Distribution",
    "DrillRow",
    "ErrorTotal",
    "Event",
    "FindingRow",
    "GeneratorTotal",
    "GroupInterval",
    "Interval",
    "Ledger",
    "Outcome",
    "Recorder",
    "RunFile",
    "RunInfo",
    "Sighting",
    "Slice",
    "StatementTotal",
    "Trial",
    "WaitTotal",
    "error_lines",
    "is_run_file",
    "position_of",
    "read_acks",
    "refusing_invalid",
    "server_details",
    "throughput_tps",
]
