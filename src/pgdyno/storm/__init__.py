"""Storms: many clients that connect at once, or come back at once, and how many of them it takes.

``_shapes`` makes one storm; ``_search`` decides how large the next one is, knows no server and is
tested with simulated outcomes; ``_measuring`` carries storms out, and ``procedure`` puts it
together with what slow start and a queue would change.
"""
