"""Imports of test plans and recordings for web servers, as specs and scripts of pgdyno."""

from pgdyno.imports._files import (
    FOREIGN_SUFFIXES,
    fields_with_texts,
    is_foreign,
    read_foreign,
    write_import,
)
from pgdyno.imports._model import Choices, Imported

__all__ = [
    "FOREIGN_SUFFIXES",
    "Choices",
    "Imported",
    "fields_with_texts",
    "is_foreign",
    "read_foreign",
    "write_import",
]
