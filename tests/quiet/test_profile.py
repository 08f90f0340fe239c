"""Profiles of the benchmarks: what perf samples is of the load engine, if the machine lets it."""

from __future__ import annotations

import shutil

import pytest

from benches.profiling import profile


def test_profile() -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    report = profile(["--clients", "2", "--scale", "1", "--seconds", "0.5"])
    assert "_engine.abi3.so" in report
