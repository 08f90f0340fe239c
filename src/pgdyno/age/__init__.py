"""A server of an old age under load: what it does, what it refuses, and how it gets young again."""
