"""`python -m benchkit.eval.megadepth1500`."""

from benchkit.commands.eval import main_of

raise SystemExit(main_of("megadepth1500"))
