"""`python -m bench.run NAME …`: a benchmark, then its page, in one process: who ends make ends both."""

from __future__ import annotations

import sys
from importlib import import_module

from bench import page


def main(arguments: list[str]) -> int:
    name, *options = arguments
    module = import_module(f"bench.{name}")
    if hasattr(module, "__path__"):
        module = import_module(f"bench.{name}.__main__")
    sys.argv = [f"bench.{name}", *options]  # as if it had been started by itself
    measured: int | None = module.main()
    return page.main([]) or measured or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
