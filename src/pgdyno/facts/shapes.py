"""Shapes of statements by which a script's text and the server's are the same one."""

from __future__ import annotations

import re

from pgdyno.probe.statement_shapes import statement_shape

_VARIABLE = re.compile(r"""(?<![:\w]):(?:'\w+'|"\w+"|[A-Za-z_]\w*)""")
_PARAMETER = re.compile(r"\$\d+|(?<=[-+*/=(<>,])\s*-\s*(?=\?)")
_CUT_OFF = "…"


def without_values(text: str) -> str:
    """Return a statement of a script or of the server with ``?`` for variables and literals."""
    return statement_shape(_VARIABLE.sub("?", text))


def shape(text: str) -> str:
    """Return the shape of a statement, the same for a script's text and the server's."""
    plain = without_values(text).rstrip(_CUT_OFF)
    return _PARAMETER.sub(lambda found: "?" if "$" in found[0] else " ", plain).lower().strip("; ")


def same_shape(script: str, sampled: str) -> bool:
    """True if the shapes are the same as far as both texts go; either may be cut off."""
    short, long = sorted((script, sampled), key=len)
    return bool(short) and (short == long or (len(short) > 40 and long.startswith(short)))
