"""Types of JSON, rows and fields that come from outside.

What pgdyno makes itself has types; ``Mapping[str, object]`` and ``dict[str, object]`` are what it
writes. These are for reading.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
"""A JSON object, of a file or of another process."""
Row = dict[str, Any]
"""A row that a query returned, by column."""
Fields = dict[str, Any]
"""A spec, or a table of it, as TOML or a run file has it: not validated."""
