"""The procedures of ``pgdyno run`` and ``investigate``.

``run`` runs a spec and diagnoses it; ``loop`` repeats diagnosis and trials of remedies. They
are imported from their files, so that ``run`` does not import what only ``investigate`` needs.
"""
