"""Profiles: files of settings that are one side of a comparison.

``reading`` parses a file, ``own`` has the profiles that come with pgdyno, ``checking`` finds every
line that a server would refuse or that has no effect there, and ``procedure`` measures the whole
and, with ``_ablating``, which lines make the difference.
"""
