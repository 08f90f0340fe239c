"""The front end of a spec: whether it can be had, and its start before the server."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pgdyno.conduct._target import Target
from pgdyno.conduct.watch import Watcher
from pgdyno.server import ConnInfo
from pgdyno.server.local.owner import owner_by_tcp
from pgdyno.spec import Spec
from pgdyno.spec.front import in_words

if TYPE_CHECKING:
    from pgdyno.front import WebServerFigures


def check_front(spec: Spec) -> None:
    """Raise SetupError if the spec has a front end and Java is missing, or figures of one that
    cannot be read. Starts nothing."""
    if spec.front is not None:
        from pgdyno.front import find_java

        find_java(spec.front.java)
    figures_of(spec)


def figures_of(spec: Spec) -> WebServerFigures | None:
    """Return the figures of a web server of the user's; None if the spec names none. Raises
    SetupError."""
    metrics = spec.http.metrics if spec.http is not None else None
    if metrics is None:
        return None
    from pgdyno.front import WebServerFigures

    return WebServerFigures(metrics)


def start_application(spec: Spec, target: Target, watcher: Watcher, stack: ExitStack) -> None:
    """Start the front end of ``spec``, if it has one; ``stack`` ends it. Raises SetupError."""
    if spec.front is None:
        return
    from pgdyno.front import Application

    watcher.phase(f"starting {in_words(spec.front)}")
    target.application = Application(server_of(target), spec.front, watcher.phase)
    stack.callback(target.application.close)
    target.facts["front"] = target.application.facts()


COMPILING_SHARE = 0.05
"""Part of a core that compiles, below which a virtual machine is warm."""
_COMPILING_S_MAX = 15.0
_LOOK_S = 1.0


def wait_compiled(target: Target, wait: Callable[[float], None], compiled_pid: int) -> int:
    """Let the load run until the front end's virtual machine hardly compiles any more, which takes
    a core meanwhile, at most ``_COMPILING_S_MAX``; return its PID. One that has compiled once,
    ``compiled_pid``, is not waited for."""
    application = target.application
    if application is None or application.pid == compiled_pid:
        return compiled_pid
    deadline, before_ms = time.monotonic() + _COMPILING_S_MAX, application.compiled_ms
    while time.monotonic() < deadline:
        wait(_LOOK_S)
        now_ms = application.compiled_ms
        if now_ms - before_ms < 1000 * COMPILING_SHARE * _LOOK_S:
            break
        before_ms = now_ms
    return application.pid


def server_of(target: Target) -> ConnInfo:
    """Return how a front end reaches the server: its driver connects over TCP only."""
    if target.cluster is None:
        return target.entrance
    tcp = target.cluster.conninfo_tcp
    return tcp if target.load_user is None else owner_by_tcp(target.conninfo, tcp)
