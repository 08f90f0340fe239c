"""Connections to a server, and facts about it: identity, version, poolers, refusals."""
