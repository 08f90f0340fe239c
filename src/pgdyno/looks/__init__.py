"""The looks of a check: what each reads, and how it is taken."""
