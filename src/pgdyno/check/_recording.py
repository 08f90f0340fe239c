"""The run file of a check, and the looks that are recorded in it."""

from __future__ import annotations

from pathlib import Path

from pgdyno.check._reach import Reached, answering, session
from pgdyno.check._window import data_dir_of
from pgdyno.looks.look import ServerMachine
from pgdyno.looks.looking import take_looks
from pgdyno.probe import host_facts
from pgdyno.record import Recorder

NAME = "check"


def new_recorder(path: Path, reached: Reached) -> Recorder:
    """Return the recorder of a new run file with the facts of server and host."""
    facts = reached.facts
    host = host_facts(data_dir_of(reached), pid=facts.get("postmaster_pid"))
    return Recorder.create(
        path,
        name=NAME,
        command=NAME,
        server=facts,
        host={**host, "same_host_as_server": bool(facts.get("is_local"))},
    )


def take_all_looks(reached: Reached, recorder: Recorder, *, again: bool = False) -> None:
    """Take all looks and record them; ``again`` only those whose rows must last. Raises SetupError
    if the server stops answering."""
    local = bool(reached.facts.get("is_local"))
    machine = ServerMachine(data_dir_of(reached), reached.facts.get("postmaster_pid"))
    with answering(reached.conninfo), session(reached.conninfo) as connection:
        take_looks(connection, recorder, machine if local else None, again=again)
    recorder.flush()
