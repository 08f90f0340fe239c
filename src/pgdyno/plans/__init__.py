"""Execution plans of the load's statements, asked of the server, and the time that statements take
with and without a change."""
