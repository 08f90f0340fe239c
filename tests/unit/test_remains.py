"""What tests leave: of one that failed what it is understood by, and not the server's data."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from remains import heed_stop_signals, remove_clusters

TESTS = Path(__file__).parents[1]


def test_logs_and_run_files_stay_and_servers_data_go(tmp_path: Path) -> None:
    data = tmp_path / "run.db.server" / "data"
    for folder in ("global", "base/5"):
        (data / folder).mkdir(parents=True)
    for file in ("PG_VERSION", "base/5/PG_VERSION", "base/5/1259", "server.log"):
        (data / file).write_text("x")
    (tmp_path / "run.db").write_bytes(bytes(9 << 20))
    (tmp_path / "wal.img").write_bytes(bytes(9 << 20))
    (tmp_path / "typed.sql").write_text("select 1;")
    remove_clusters(tmp_path)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"run.db", "run.db.server/data/server.log", "typed.sql"}


def test_stop_signals_that_a_shell_has_ignored_are_heeded_again() -> None:
    asked = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    program = (
        "import signal, subprocess, sys; from remains import heed_stop_signals; "
        f"heed_stop_signals(); subprocess.run([sys.executable, '-c', {asked!r}])"
    )

    def said(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=TESTS,
            capture_output=True,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert said(asked) == "True"
    assert said(program) == "False"


def test_handlers_of_others_stay() -> None:
    def own(number: int, frame: object) -> None:
        """Never called."""

    before = signal.signal(signal.SIGHUP, own)
    try:
        heed_stop_signals()
        assert signal.getsignal(signal.SIGHUP) is own
    finally:
        signal.signal(signal.SIGHUP, before)
