"""The examples of CONTRIBUTING.md: the path of each file within the package, and its text."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pgdyno

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
EXAMPLES = dict(
    re.findall(
        r"^`src/pgdyno/(\S+\.py)`:\n\n```python\n(.*?)^```$",
        CONTRIBUTING.read_text(),
        re.MULTILINE | re.DOTALL,
    )
)


def package_with_examples(directory: Path) -> Path:
    """Copy the package to ``src/`` in a directory, with the examples in it; return the tree."""
    tree = directory / "src" / "pgdyno"
    # Compiled files come and go while other tests run.
    compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(pgdyno.__file__).parent, tree, symlinks=True, ignore=compiled)
    for name, text in EXAMPLES.items():
        path = tree / name
        assert not path.exists(), f"{name} is no example of something new"
        path.write_text(text)
    return directory
