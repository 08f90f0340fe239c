"""Loads with a plan around them: a server of an old age, hours to weeks, variants that begin with
one saved state, states under a name, and stories of several chapters."""
