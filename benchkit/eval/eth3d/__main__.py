"""`python -m benchkit.eval.eth3d`."""

from benchkit.commands.eval import main_of

raise SystemExit(main_of("eth3d"))
