"""A run file as a spec: what it has, what it lacks on purpose, and what is said then."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.conduct import check_server_named, read_spec_or_run
from pgdyno.conduct.repeating import recorded_fields
from pgdyno.errors import UsageError
from pgdyno.record import Recorder, RunFile
from pgdyno.report.words.repeat import command_of
from pgdyno.spec import Spec, spec_from_fields
from pgdyno.workload import load_workloads, with_texts

SERVER = {"kind": "existing", "uri": "postgresql://joe@db.example/shop"}


def recorded(path: Path, spec: Spec, **run: object) -> Path:
    recorder = Recorder.create(
        path, name=spec.name, command="run", spec=recorded_fields(with_texts(spec)), **run
    )
    recorder.finish("done")
    return path


def spec_with(tmp_path: Path, script: str) -> Spec:
    file = tmp_path / "own.sql"
    file.write_text(script)
    return spec_from_fields({"workload": {"script": [{"file": str(file)}], "setup": str(file)}})


def test_texts_come_back_as_they_were(tmp_path: Path) -> None:
    script = "-- \"quoted\", a 'tab\t', é\nselect 1;\n\n"
    spec = spec_with(tmp_path, script)
    path = recorded(tmp_path / "run.db", spec)
    (tmp_path / "own.sql").unlink()
    back, _ = read_spec_or_run(path)
    assert back.workload.setup_text == script
    assert load_workloads(back)["clients"].scripts[0].text == script


@pytest.mark.parametrize(
    "script",
    [
        "alter role joe password 'secret';\nselect 1;\n",
        "select dblink_connect('postgresql://joe:secret@db/shop');\nselect 1;\n",
    ],
)
def test_a_password_in_a_script_is_not_recorded_and_missed(tmp_path: Path, script: str) -> None:
    path = recorded(tmp_path / "run.db", spec_with(tmp_path, script))
    assert b"secret" not in path.read_bytes()
    back, _ = read_spec_or_run(path)
    assert load_workloads(back)["clients"].scripts[0].text == script
    (tmp_path / "own.sql").unlink()
    with pytest.raises(UsageError, match=r"workload\.script\[0\]\.text"):
        read_spec_or_run(path)


def test_a_server_that_was_there_is_named_again(tmp_path: Path) -> None:
    spec = spec_from_fields(
        {"server": {"kind": "existing", "conninfo": "postgresql://joe:pw@db.example/shop"}}
    )
    path = recorded(tmp_path / "run.db", spec, server=SERVER)
    back, _ = read_spec_or_run(path)
    with pytest.raises(UsageError, match="which must be named again") as problem:
        check_server_named(back, path)
    assert "postgresql://joe@db.example/shop" in str(problem.value.hint)
    named, _ = read_spec_or_run(path, {"server": {"kind": "existing", "conninfo": "dbname=shop"}})
    check_server_named(named, path)
    with RunFile(path) as run:
        printed = command_of(run, "run.db")
    assert printed == "pgdyno run run.db postgresql://joe@db.example/shop"


def test_a_file_that_is_no_run_file_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("not a database")
    with pytest.raises(UsageError, match="is not a run file of pgdyno"):
        read_spec_or_run(tmp_path / "notes.db")
