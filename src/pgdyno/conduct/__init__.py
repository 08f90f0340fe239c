"""The conductor: carries out one spec from start to finish, on one clock."""

from pgdyno.conduct._config import Acks
from pgdyno.conduct._load import check_scripts
from pgdyno.conduct._opening import open_session
from pgdyno.conduct._session import Session
from pgdyno.conduct._single_run import carry_out
from pgdyno.conduct._target import Target, check_binaries, check_settings
from pgdyno.conduct.initialise import Initialised, initialise
from pgdyno.conduct.repeating import check_server_named, is_spec_of_run, read_spec_or_run
from pgdyno.conduct.watch import Silent, Tick, Watcher

__all__ = [
    "Acks",
    "Initialised",
    "Session",
    "Silent",
    "Target",
    "Tick",
    "Watcher",
    "carry_out",
    "check_binaries",
    "check_scripts",
    "check_server_named",
    "check_settings",
    "initialise",
    "is_spec_of_run",
    "open_session",
    "read_spec_or_run",
]
