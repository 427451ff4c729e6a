"""Runs the parts beside this file and prints their figures, one JSON line each, with threads and BLAS kernel."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

PARTS = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in ("all", "images"))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the named parts, or all."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--long", action="store_true", help="also the figures that take minutes")
    parser.add_argument(
        "--scale", type=int, nargs="?", const=1_280_000, metavar="N", help="the part scale alone, up to N images"
    )
    parser.add_argument("--gpu", action="store_true", help="the part gpu alone")
    given = parser.parse_args(argv)
    if not given.parts:
        given.parts = [name for name, asked in (("scale", given.scale), ("gpu", given.gpu)) if asked]
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {sorted(unknown)[0]!r}; there are {', '.join(PARTS)}")
    sys.path.insert(0, str(Path(__file__).parent))
    for name in given.parts or PARTS:
        run = importlib.import_module(name).run
        wished = {"long": given.long, "scale": given.scale}
        taken = inspect.signature(run).parameters
        for figure in run(given.threads, **{key: value for key, value in wished.items() if key in taken}):
            print(json.dumps({**figure, "threads": given.threads, "blas": _blas()}), flush=True)


def _blas() -> str:
    info = np.show_config(mode="dicts")["Build Dependencies"]["blas"]  # type: ignore[index]
    try:
        from threadpoolctl import threadpool_info

        kernels = {i.get("architecture") for i in threadpool_info() if i["user_api"] == "blas"}
        return f"{info['name']} {info['version']} {'/'.join(sorted(k for k in kernels if k))}"
    except ImportError:
        return f"{info['name']} {info['version']}"


if __name__ == "__main__":
    main()
