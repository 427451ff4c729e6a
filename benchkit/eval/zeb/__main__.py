"""`python -m benchkit.eval.zeb`."""

from benchkit.commands.eval import main_of

raise SystemExit(main_of("zeb"))
