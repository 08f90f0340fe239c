"""The entrance for clients of a server that is reached: the server, or the pooler of a spec."""

from __future__ import annotations

from contextlib import ExitStack

from pgdyno.conduct.watch import Watcher
from pgdyno.pooler import Gateway, warnings
from pgdyno.server import ConnInfo
from pgdyno.spec import Spec
from pgdyno.spec.pooler import in_words


def in_front(spec: Spec, server: ConnInfo, stack: ExitStack, watcher: Watcher) -> Gateway:
    """Start the pooler of ``spec`` in front of the server, if it asks for one."""
    gateway = Gateway(server)
    stack.callback(gateway.close)
    if spec.pooler.in_use:
        watcher.phase(f"starting {in_words(spec.pooler)}")
        gateway.arrange(spec)
        for warning in warnings(spec):
            watcher.note(f"warning: {warning}")
    return gateway
