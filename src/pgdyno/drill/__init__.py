"""Drills: servers are broken on purpose to measure the loss in a crash."""
