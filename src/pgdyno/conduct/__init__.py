"""The conductor: carries out one spec from start to finish, on one clock."""

from pgdyno.conduct._aging import Aged, grow_old, rows_of
from pgdyno.conduct._config import Acks
from pgdyno.conduct._interrupt import hold_stop_signals, stop_signals
from pgdyno.conduct._load import check_scripts
from pgdyno.conduct._opening import open_session
from pgdyno.conduct._other_servers import check_turns
from pgdyno.conduct._session import Session, warm_up_seconds_max
from pgdyno.conduct._single_run import carry_on, carry_out, measure_with_events
from pgdyno.conduct._starting import installation_of, setup_digest
from pgdyno.conduct._tables import (
    Initialised,
    check_tables,
    initialise,
    prepared_server,
    started_server,
)
from pgdyno.conduct._target import (
    Target,
    check_age_kept,
    check_binaries,
    check_open_files,
    check_settings,
)
from pgdyno.conduct.repeating import check_server_named, is_spec_of_run, read_spec_or_run
from pgdyno.conduct.watch import Silent, Tick, Watcher

__all__ = [
    "Acks",
    "Aged",
    "Initialised",
    "Session",
    "Silent",
    "Target",
    "Tick",
    "Watcher",
    "carry_on",
    "carry_out",
    "check_age_kept",
    "check_binaries",
    "check_open_files",
    "check_scripts",
    "check_server_named",
    "check_settings",
    "check_tables",
    "check_turns",
    "grow_old",
    "hold_stop_signals",
    "initialise",
    "installation_of",
    "is_spec_of_run",
    "measure_with_events",
    "open_session",
    "prepared_server",
    "read_spec_or_run",
    "rows_of",
    "setup_digest",
    "started_server",
    "stop_signals",
    "warm_up_seconds_max",
]
