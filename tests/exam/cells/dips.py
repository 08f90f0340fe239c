"""Throughput that varies: with checkpoints, with bursts of arrivals, with chance."""

from __future__ import annotations

import re

from exam.model import BLAMES_NOTHING, Cause, Cell, Proof
from exam.proofs import nothing_injected
from exam.scene import Scene


def _checkpoints(scene: Scene) -> Proof:
    log = scene.log_path.read_text(errors="replace")
    ended = re.findall(r"checkpoint complete: .*?sync=([\d.]+) s, total=([\d.]+) s", log)
    longest_s = max((float(total) for _, total in ended), default=0.0)
    stopped = sum(
        not any(seen.computes or not seen.wait for seen in sample) for sample in scene.samples
    )
    share = stopped / max(1, len(scene.samples))
    text = f"the server's log: {len(ended)} checkpoints, the longest of {longest_s:.1f} s"
    return Proof(text, longest_s > 0.5, share)


CELL = Cell(
    "dips",
    (
        Cause("checkpoint-dip", ("stall", "checkpoint-fpi"), _checkpoints),
        Cause("bursts", BLAMES_NOTHING, nothing_injected, healthy=True),
        Cause("four-tps", BLAMES_NOTHING, nothing_injected, healthy=True),
    ),
)
