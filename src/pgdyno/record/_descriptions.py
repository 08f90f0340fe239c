"""Descriptions of the members of results: the string below each of them.

pydantic's ``use_attribute_docstrings`` reads and parses the source of every type when it is
imported, which takes longer than all else of it. Only the published schemas need descriptions.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise


def descriptions(part: type) -> dict[str, str]:
    """Return the description of each attribute of a class, also of inherited ones, that has one."""
    found: dict[str, str] = {}
    for each in reversed(part.__mro__):
        found |= _of_module(each.__module__).get(each.__qualname__, {})
    return found


@cache
def _of_module(name: str) -> dict[str, dict[str, str]]:
    """Return the descriptions by class and attribute."""
    if not name.startswith("pgdyno."):
        return {}
    tree = ast.parse(inspect.getsource(sys.modules[name]))
    return {each.name: _of_class(each) for each in tree.body if isinstance(each, ast.ClassDef)}


def _of_class(tree: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for member, below in pairwise(tree.body):
        match member, below:
            case (
                ast.AnnAssign(target=ast.Name(name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
    return found
