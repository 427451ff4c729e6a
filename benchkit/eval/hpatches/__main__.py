"""`python -m benchkit.eval.hpatches`."""

from benchkit.commands.eval import main_of

raise SystemExit(main_of("hpatches"))
