"""The exam: bottlenecks that are injected, and proved, and what pgdyno says of them.

``make exam`` carries out *cases*. A cell (``cells/``) holds causes that look alike; a case is one
cause at one seed on one version of PostgreSQL. ``docs/exam.md`` says how they are graded.
"""
