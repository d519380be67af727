"""Find the benchmarks: the modules of this package that define a ``BENCHMARK``."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import benchmarks as package
from benchmarks.harness import Benchmark

__all__ = ["benchmarks"]


def benchmarks() -> list[Benchmark]:
    """Return all benchmarks, by name."""
    names = [module.name for module in iter_modules(package.__path__) if not module.ispkg]
    modules = [import_module(f"benchmarks.{name}") for name in names if name != "__main__"]
    found = [getattr(module, "BENCHMARK", None) for module in modules]
    return [benchmark for benchmark in found if isinstance(benchmark, Benchmark)]
