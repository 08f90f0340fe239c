"""Summaries for the terminal."""
