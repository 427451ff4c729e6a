"""`python -m benchkit.export`."""

from benchkit.commands.export import main

raise SystemExit(main(prog="python -m benchkit.export"))
