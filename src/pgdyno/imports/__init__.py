"""Imports of what other tools wrote for web servers, as specs and scripts of pgdyno."""

from pgdyno.imports._fields import fields_with_texts, write_import
from pgdyno.imports._model import Choices, Imported
from pgdyno.imports._reading import FOREIGN_SUFFIXES, is_foreign, read_foreign

__all__ = [
    "FOREIGN_SUFFIXES",
    "Choices",
    "Imported",
    "fields_with_texts",
    "is_foreign",
    "read_foreign",
    "write_import",
]
