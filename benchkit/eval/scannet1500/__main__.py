"""`python -m benchkit.eval.scannet1500`."""

from benchkit.commands.eval import main_of

raise SystemExit(main_of("scannet1500"))
