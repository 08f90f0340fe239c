"""The signatures, one file each. See :mod:`pgdyno.diagnose.signature` for what a file must hold."""
