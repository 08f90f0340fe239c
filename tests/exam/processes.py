"""Cases in processes of their own, which end with all that they started, and the exam's state."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock


def answer_of(module: str, asked: Mapping[str, Any], *, seconds_max: float) -> dict[str, Any]:
    """Return the JSON that ``python -m module`` prints for ``asked`` on its standard input.

    A process that takes longer than ``seconds_max``, or prints none, gives ``error``.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, said = process.communicate(json.dumps(asked), timeout=seconds_max)
        answer: dict[str, Any] = json.loads(out)
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {seconds_max:g} s"}
    except json.JSONDecodeError:
        return {"error": said.strip().splitlines()[-1] if said.strip() else "no answer"}
    finally:
        _end(process)
    return answer


def _end(process: subprocess.Popen[str]) -> None:
    """End a process that still runs, and what it started; servers end with it."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def home() -> Iterator[None]:
    """A state directory of the exam's own, which the server's account can enter."""
    directory = tempfile.mkdtemp(prefix="pgdyno-exam-home-")
    Path(directory).chmod(0o755)
    try:
        with mock.patch.dict(os.environ, PGDYNO_HOME=directory):
            yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)
