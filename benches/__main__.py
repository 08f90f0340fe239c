"""``python -m benches``: run every benchmark and print its figures with intervals.

The figures are ratios within one run; absolute speeds say more about the machine than about pgdyno.
"""

from __future__ import annotations

import argparse

from benches.probe_cost import probe_cost


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--slice-seconds", type=float, default=3.0)
    arguments = parser.parse_args()
    cost = probe_cost(pairs=arguments.pairs, slice_s=arguments.slice_seconds)
    print("throughput with all probes on / with probes off (asked: above 0.99)")
    for script, effect in cost.items():
        print(
            f"  {script:<14} {effect.ratio:.4f}  [{effect.lo:.4f}, {effect.hi:.4f}]"
            f"  {effect.pairs} pairs"
        )


main()
