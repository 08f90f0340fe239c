"""The examples of CONTRIBUTING.md: the path of each file within the package, and its text."""

from __future__ import annotations

import re
from pathlib import Path

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
EXAMPLES = dict(
    re.findall(
        r"^`src/pgdyno/(\S+\.py)`:\n\n```python\n(.*?)^```$",
        CONTRIBUTING.read_text(),
        re.MULTILINE | re.DOTALL,
    )
)
