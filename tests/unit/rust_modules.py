"""What a test of the house reads in Rust: which modules use which, and how long functions are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

Module = tuple[str, ...]

_COMMENT = re.compile(r"//[^\n]*")
_TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod\s")
_PATH = re.compile(r"\b(crate|super)((?:::\w+)*)(?:::\{([^{}]*)\})?")
_EXPORT = re.compile(r"pub use (\w+)::(?:\{([^}]*)\}|(\w+));")
_FUNCTION = re.compile(
    r"( *)(?:pub(?:\([^)]*\))? )?(?:(?:const|async|unsafe|extern \"C\") )*fn (\w+)"
)


def uses_of_modules(src: Path) -> dict[Module, set[Module]]:
    """Which modules use which that stand beside them, in a crate or in one of its modules.

    A module uses what it, or a module below it, names; its tests do not count.
    """
    files = {_module(path, src): path for path in src.rglob("*.rs")}
    exports = _exports(files.get((), src / "main.rs"))
    uses: dict[Module, set[Module]] = {}
    for here, path in files.items():
        if path.stem == "tests" or not here:
            continue
        for named in _named(path.read_text(), here, exports):
            level = next((n for n, (a, b) in enumerate(zip(here, named)) if a != b), None)  # noqa: B905
            if level is not None and named[: level + 1] in files:
                uses.setdefault(here[: level + 1], set()).add(named[: level + 1])
    return uses


def function_lengths(text: str) -> Iterator[tuple[str, int]]:
    """Name and lines of each function, in a text that rustfmt has formatted."""
    lines = text.splitlines()
    for first, line in enumerate(lines):
        if (begins := _FUNCTION.match(line)) is None:
            continue
        for last in range(first, len(lines)):
            if lines[last] == f"{begins[1]}}}" or (last == first and lines[last].endswith("}")):
                yield begins[2], last - first + 1
                break
            if lines[last].endswith(";") and not lines[last].startswith(f"{begins[1]} "):
                break  # A trait's, without a body.


def _module(path: Path, src: Path) -> Module:
    parts = path.relative_to(src).with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts


def _exports(lib: Path) -> dict[str, str]:
    """What a crate's root shows under its own name: item → module."""
    found = {}
    for module, several, one in _EXPORT.findall(lib.read_text() if lib.exists() else ""):
        for item in re.findall(r"\w+", several or one):
            found[item] = module
    return found


def _named(text: str, here: Module, exports: dict[str, str]) -> Iterator[Module]:
    code = _COMMENT.sub("", _TESTS.split(text)[0])
    for root, path, group in _PATH.findall(code):
        parts = [part for part in path.split("::") if part]
        base = () if root == "crate" else here[:-1]
        while parts[:1] == ["super"]:
            base, parts = base[:-1], parts[1:]
        for head in re.findall(r"(?:^|,)\s*(\w+)", group) if group and not parts else [None]:
            named = (*base, *parts, *([head] if head else []))
            yield (exports[named[0]],) if len(named) == 1 and named[0] in exports else named
