"""Execution plans of the load's statements, asked of the server, and the time that statements take
with and without a change."""

LEAST_MS = 0.012
"""Time of the server for any statement: one that reads nothing, by the prepared protocol."""
NOISE = 2.0
"""Factor by which a time of one or two executions may be wrong: so far apart are times on a machine
that others use."""
