"""Common parts of searches: points that are measured within a time budget.

``sizes`` decides which numbers of something (clients, connections of a pool) are measured next and
which of them is the answer; it knows figures and no server, and is tested with simulated ones.
``points`` measures, ``measuring`` keeps to the budget, ``curve`` sums up.
"""
