"""Searches for a size that still meets a target, within a time budget.

``knee`` looks for a number of clients or a rate, ``pool`` for a number of connections, ``storm``
for a number of clients that arrive at once. Each prepares its spec (``_preparing``), measures
points (``_points``, ``measuring``, ``_storm_load``), and comes to an answer with what limits it
(``_curve``, ``_knee_result``, ``_pool_result``). Which point is next, and which is the answer, is
decided by ``_sizes`` or ``_bisection``: they know figures and no server, and are tested with
simulated ones.
"""
