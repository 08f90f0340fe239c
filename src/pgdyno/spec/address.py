"""Addresses that pgdyno listens on: ``HOST:PORT``, or a port of the loopback address."""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"
PORT_MAX = 65_535
NOT_MEANT = "the name in the URL (Host) is not one of this server: use the address it listens on"
"""Answer to a request that ``is_meant_for`` refuses."""


class Address(NamedTuple):
    """Host name or address without brackets, and port; port 0 stands for any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return it as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse ``HOST:PORT``, ``[IPv6]:PORT``, ``:PORT`` or ``PORT``; without a host it is the
    loopback address. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not (port.isascii() and port.isdigit()):
        raise ValueError(f'"{text}" is not HOST:PORT, such as {LOOPBACK}:9187')
    if int(port) > PORT_MAX:
        raise ValueError(f'the port of "{text}" is above {PORT_MAX:,}')
    if colon and ":" in host and not bracketed:
        raise ValueError(f'an IPv6 address needs brackets: "[{host}]:{port}"')
    if any(c.isspace() or c in "/@" for c in host):
        raise ValueError(f'"{text}" is not HOST:PORT, such as {LOOPBACK}:9187')
    return Address((host[1:-1] if bracketed else host) or LOOPBACK, int(port))


def is_meant_for(address: Address, machine: str, asked: str | None) -> bool:
    """Return whether a request with the header ``Host: asked`` is meant for what listens on
    ``address``, on a machine of the name ``machine``. None: it has no such header.

    A web page can have its own name resolve to any address (DNS rebinding), and would read answers
    as its own. Its requests have that name in Host, which browsers always send: on a loopback
    address only those of loopback are accepted, on others also addresses, names without a domain,
    and the names of the machine and of ``address``.
    """
    if asked is None:
        return True
    try:
        name = (urlsplit(f"//{asked}").hostname or "").removesuffix(".")
    except ValueError:
        return False
    ours = {"localhost", address.host.lower().removesuffix(".")}
    if name in ours or _is_loopback(name):
        return True
    if _is_loopback(address.host) or address.host.lower() == "localhost":
        return False
    return bool(name) and (_is_ip(name) or "." not in name or name == machine.lower())


def _is_ip(host: str) -> bool:
    try:
        return bool(ip_address(host))
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    return _is_ip(host) and ip_address(host).is_loopback
