"""`python -m benchkit.eval <benchmark>`."""

from benchkit.commands.eval import main

raise SystemExit(main(prog="python -m benchkit.eval"))
