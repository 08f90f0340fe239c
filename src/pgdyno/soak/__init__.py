"""Soaks: one load for hours to weeks, in one run file, whatever ends pgdyno meanwhile."""
