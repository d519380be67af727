"""Run all benchmarks, or those named: ``python -m benchmarks [NAME …] [--quick] [--no-peers]``."""

from __future__ import annotations

import sys

from benchmarks.discover import benchmarks
from benchmarks.harness import clean_up_when_ended, parser
from benchmarks.peers import peers_python


def main() -> int:
    """Run the chosen benchmarks one after another."""
    found = {benchmark.name: benchmark for benchmark in benchmarks()}
    options = parser("Measure roboreel beside its peers.")
    options.add_argument("names", nargs="*", help=f"which: {', '.join(found)}; all if none named")
    chosen = options.parse_args()
    unknown = [name for name in chosen.names if name not in found]
    if unknown:
        options.error(f"no benchmark {unknown[0]!r}: there are {', '.join(found)}")
    clean_up_when_ended()
    peers = None if chosen.no_peers else peers_python()
    for name in chosen.names or found:
        found[name].run(
            quick=chosen.quick,
            peers=peers,
            out=chosen.out,
            rounds=chosen.rounds,
            against=chosen.against,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
