"""The command line in process: arguments in, exit status and both outputs out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from printed import Said

from pgdyno.cli import _status
from pgdyno.cli.failures import _ending_of
from pgdyno.errors import Ending


@pytest.fixture
def pgdyno(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Said]:
    """Run a command as the shell would, in an empty directory, outputs captured."""
    monkeypatch.chdir(tmp_path)
    endings: list[Ending] = []

    def noted(problem: BaseException) -> Ending:
        endings.append(_ending_of(problem))
        return endings[-1]

    monkeypatch.setattr("pgdyno.cli.failures._ending_of", noted)

    def run(*arguments: str) -> Said:
        monkeypatch.setattr("sys.argv", ["pgdyno", *arguments])
        endings.clear()
        capfd.readouterr()
        status = _status()
        captured = capfd.readouterr()
        return Said(status, captured.out, captured.err, endings[0].code if endings else None)

    return run
