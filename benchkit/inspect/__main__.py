"""`python -m benchkit.inspect <benchmark> TAG ...`."""

from benchkit.commands.inspect import main

raise SystemExit(main(prog="python -m benchkit.inspect"))
