"""Trials: pairs of slices that answer one question, and whether the answer can be trusted."""
