"""The queues of a pooler that tells them, in a sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pgdyno import numbers
from pgdyno.record import RunFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Columns = Mapping[str, NDArray[Any]]


def queue_words(run: RunFile, slice_ids: Collection[int] | None) -> str:
    """Return how many clients waited in the pooler, and how many connections it used; '' if that
    was not recorded."""
    if not run.has_samples("metric_pooler", slice_ids):
        return ""
    rows = run.series("metric_pooler", slice_ids)
    return "; ".join([*_of_clients(rows), *_of_servers(rows)])


def _of_clients(rows: _Columns) -> Iterator[str]:
    import numpy as np

    clients, waiting = _summed(rows, "clients"), _summed(rows, "clients_waiting")
    if waiting.size:
        first_ms = float(np.nanmax([*rows["wait_ms_max"], 0.0]))
        first = f", the first one up to {numbers.ms(first_ms)}" if first_ms else ""
        yield (
            f"on average {_mean(waiting)} of {_mean(clients)} clients waited for a server"
            f" connection, at most {np.max(waiting):.0f}{first}"
        )
    elif clients.size:
        yield f"{_mean(clients)} clients connected"
    unaccepted = _summed(rows, "listen_queue")
    if unaccepted.size and np.max(unaccepted) > 0:
        yield (
            f"{_mean(unaccepted)} more in its listen queue, at most {np.max(unaccepted):.0f}, which"
            " no view of it or of the server shows"
        )


def _of_servers(rows: _Columns) -> Iterator[str]:
    active, idle = _summed(rows, "servers_active"), _summed(rows, "servers_idle")
    if idle.size:
        yield f"{_mean(active)} of {_mean(active + idle)} server connections in use"
    elif active.size:
        yield f"{_mean(active)} server connections"


def _summed(rows: _Columns, column: str) -> NDArray[Any]:
    """Return the sums over all pools at each time; empty if the pooler does not tell."""
    import numpy as np

    values = rows[column]
    if np.isnan(values).all():
        return np.array(())
    times, places = np.unique(rows["at_ms"], return_inverse=True)
    return np.bincount(places, weights=np.nan_to_num(values), minlength=len(times))


def _mean(values: NDArray[Any]) -> str:
    import numpy as np

    return numbers.significant(float(np.mean(values)), 2)
