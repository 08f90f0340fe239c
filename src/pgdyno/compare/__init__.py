"""Comparisons: one change in interleaved pairs, ``pgdyno compare``.

``change`` compares any change. ``profile`` has a file of settings as the change (``profile_file``,
``own_profiles``): ``profile_check`` finds every line that a server would refuse or that has no
effect there, and ``_ablating`` which lines make the difference, by the search of ``taking_back``.
``versions`` compares two versions
of PostgreSQL, or two builds, whose defaults ``_levelling`` makes equal.
"""
