"""The HTML page, made from a run file alone."""
