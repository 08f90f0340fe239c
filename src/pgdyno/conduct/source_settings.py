"""Settings of the server that was captured, for the server that a clone of it runs on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from pgdyno.clone.settings import settings_here
from pgdyno.conduct._starting import installation_of
from pgdyno.errors import SetupError
from pgdyno.probe import host_facts
from pgdyno.server import Installation, find_installation
from pgdyno.spec import Spec
from pgdyno.spec.age import PIN_SETTINGS
from pgdyno.spec.standby import MODE_SETTINGS

_OF_AGE = {name for pins in PIN_SETTINGS.values() for name in pins}


def with_source_settings(spec: Spec, settings: Mapping[str, str]) -> tuple[Spec, list[str]]:
    """Return the spec of a clone with the settings of its source, and notes about those that its
    server does not have.

    What the spec sets itself comes first. A server that pgdyno does not start keeps its own.
    Raises UsageError for binaries that cannot be used.
    """
    if spec.server.kind != "embedded" or not settings:
        notes = ["the server keeps its own settings, not those of the source"] if settings else []
        return spec, notes if spec.server.kind == "existing" else []
    own = {name.lower() for name in spec.server.settings}
    own |= set(MODE_SETTINGS) if spec.standby.receivers else set()
    own |= _OF_AGE if spec.server.age else set()
    asked = {name: value for name, value in settings.items() if name not in own}
    memory_bytes = host_facts(None)["memory_bytes"]
    kept, notes = settings_here(asked, [*_installations(spec)], memory_bytes)
    server = spec.server.model_copy(update={"settings": {**kept, **spec.server.settings}})
    return spec.model_copy(update={"server": server}), notes


def _installations(spec: Spec) -> Iterator[Installation]:
    """Yield the binaries of the server, and of that which it is compared with, if they are here:
    those that are not are refused when the server is to start."""
    against = spec.server.against
    with suppress(SetupError):
        yield installation_of(spec)
        if against is not None and against.isdecimal():
            yield find_installation(None, int(against))
        elif against is not None:
            yield find_installation(Path(against))
