"""`benchkit X`, the same as `python -m benchkit X`."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path

from benchkit import commands


def names() -> list[str]:
    """The commands, in name order: the modules of benchkit.commands."""
    return sorted(m.name for m in pkgutil.iter_modules(commands.__path__) if not m.name.startswith("_"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if not argv or argv[0] in ("-h", "--help"):
        print(_help())
        return 0
    if argv[0] == "--version":
        from benchkit import __version__

        print(__version__)
        return 0
    if argv[0] not in names():
        print(f"there is no command {argv[0]!r}: there are {', '.join(names())}.", file=sys.stderr)
        return 2
    return importlib.import_module(f"benchkit.commands.{argv[0]}").main(argv[1:])


def _help() -> str:
    lines = ["What a vision backbone can do, item by item, from files: export once, evaluate many.", ""]
    for name in names():
        source = Path(commands.__path__[0], f"{name}.py").read_text(encoding="utf-8")
        first = (ast.get_docstring(ast.parse(source)) or "").splitlines()[0]
        lines.append(f"  benchkit {name:10} {first}")
    return "\n".join([*lines, "", "`benchkit <command> --help` says more. Start with `benchkit demo`."])


if __name__ == "__main__":
    raise SystemExit(main())
