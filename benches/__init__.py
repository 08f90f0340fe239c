"""Benchmarks: what pgdyno itself costs, measured in interleaved pairs in one run."""
