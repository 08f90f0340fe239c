"""Connecting to a server, and what it says about itself: identity, facts, poolers, refusals."""
