"""Two versions of PostgreSQL, or two builds, under the same load: ``pgdyno compare --against``.

Versions differ in their code and in their defaults, and an upgrade that changes neither settings
nor initdb's options gets both. So they are compared twice: as shipped, and levelled, with the
defaults that differ made equal.
"""
