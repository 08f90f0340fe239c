"""The rows of statements with LIMIT, of values whose rows are spread at random.

The mean of a statement's rows tells the least LIMIT that it can have, and how many rows its values
have: some fewer, so that the mean is below the LIMIT.
"""

from __future__ import annotations

import math

_MORE = 3.0
"""Times the rows of a LIMIT from which on nearly all values have as many."""
_WHOLE = 0.001
"""Part by which rows of a call may differ from a LIMIT that always ends them."""
_LARGE = 500
"""A LIMIT from which on the spread does not matter."""
_STEPS = 40


def least_limit(rows: float) -> int:
    """Return the least LIMIT with which a statement can find so many rows on average."""
    return max(1, round(rows) if is_whole(rows) else math.ceil(rows))


def is_whole(rows: float) -> bool:
    """Return whether a LIMIT ends the rows of a statement each time."""
    return abs(rows - round(rows)) <= _WHOLE * rows


def limited(mean: float, limit: int) -> float:
    """Return the rows that a statement with LIMIT finds on average, of values that have ``mean``
    rows: a Poisson distribution."""
    if limit > _LARGE:
        return min(mean, limit)
    chance = up_to = math.exp(-mean)
    found = 0.0
    for count in range(1, limit + 1):
        found += 1 - up_to
        chance *= mean / count
        up_to += chance
    return found


def unlimited(rows: float) -> float:
    """Return how many rows values have, of which a statement finds so many with the least LIMIT
    that it can have."""
    limit = least_limit(rows)
    least, most = 0.0, _MORE * max(1.0, rows)
    if limited(most, limit) <= rows:
        return most
    for _ in range(_STEPS):
        middle = (least + most) / 2
        least, most = (middle, most) if limited(middle, limit) < rows else (least, middle)
    return most
