"""Facts of the machine of the measurement, without any that identify its owner."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from pathlib import Path
from typing import Any

from benches.server import SETTINGS, newest_installation
from pgdyno._engine import build_info


def machine_facts() -> dict[str, Any]:
    """Return date, cores, kernel, memory, versions and settings."""
    memory = re.search(r"MemTotal: +(\d+)", Path("/proc/meminfo").read_text())
    model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    build = build_info()
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "cores": os.cpu_count(),
        "processor": model[1] if model else platform.machine(),
        "memory_gib": round(int(memory[1]) / 2**20, 1) if memory else None,
        "kernel": platform.release(),
        "postgresql": newest_installation().version,
        "sysbench": program_version("sysbench"),
        "pgdyno": f"{build['version']}, {build['profile']} build",
        "settings": SETTINGS,
    }


def program_version(program: str) -> str | None:
    """Return a program's output for ``--version``; None if it is not installed."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else None
