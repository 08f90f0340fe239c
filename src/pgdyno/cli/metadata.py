"""A stand-in for ``importlib.metadata``, for what other packages ask while they are imported.

psycopg asks for its version, and pydantic for plug-ins, which pgdyno does not use. For that the
real module loads parsers of mail and of archives, and reads files of every package that is
installed: a thirtieth of a short command. Whoever asks for anything else gets the real module.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

_NAME = "importlib.metadata"
_SUFFIX = ".dist-info"


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked by the import itself
            raise AttributeError(name)
        return getattr(self._real(), name)

    def _real(self) -> ModuleType:
        """Return the real module, and leave the place to it."""
        if sys.modules.get(_NAME) is self:
            del sys.modules[_NAME]
        return importlib.import_module(_NAME)

    def version(self, package: str) -> str:
        """Return the version of an installed package, by the name of its directory of metadata."""
        begin = package.replace("-", "_") + "-"
        for directory in sys.path:
            with suppress(OSError):
                for entry in os.scandir(directory or "."):
                    if entry.name.startswith(begin) and entry.name.endswith(_SUFFIX):
                        return entry.name[len(begin) : -len(_SUFFIX)]
        found: str = self._real().version(package)
        return found

    def entry_points(self, **of: str) -> Any:
        """Return the plug-ins of a group: none of pydantic's."""
        return () if of == {"group": "pydantic"} else self._real().entry_points(**of)


def stand_in() -> None:
    """Take the place of ``importlib.metadata``, if nobody has imported it yet."""
    if _NAME not in sys.modules:
        module = _StandIn(_NAME)
        sys.modules[_NAME] = module
        importlib.metadata = module
