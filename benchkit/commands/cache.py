"""What the outputs folder holds beside results: banks of features, targets; what tags still hold; and how to be rid of it.

Deleting takes nothing from a finished tag: it has its own copy or hard link. What goes is what lets another head, layer or
benchmark go without forwarding the images again.

examples:
  benchkit cache                         how much room, and which tags were made from it
  benchkit cache prune --unused          banks and targets that no finished tag was made from (says what; --yes does it)
  benchkit cache prune --older 30d --yes whatever nobody has written to for thirty days, and unfinished files of that age
  benchkit cache prune tf_efficientnet_lite0-06094cf8 --yes
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchkit.commands._shared import guarded, parse, parser, say
from benchkit.errors import some

if TYPE_CHECKING:
    from benchkit.store.usage import Holding

_AGE = re.compile(r"(\d+)([hdw])")
_SECONDS = {"h": 3600, "d": 86400, "w": 7 * 86400}


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    made = parser("benchkit cache", __doc__)
    made.add_argument("action", nargs="?", choices=("stats", "prune"), default="stats", help="default: stats")
    made.add_argument(
        "names", nargs="*", metavar="NAME", help="of prune: banks or files, by the names that stats shows"
    )
    made.add_argument("--unused", action="store_true", help="of prune: what no finished tag was made from")
    made.add_argument("--older", metavar="AGE", help="of prune: not written to for so long, such as 12h, 30d, 8w")
    made.add_argument("--yes", action="store_true", help="of prune: delete; without it, only say what would go")
    made.add_argument("--json", action="store_true", help="machine-readable")
    made.add_argument("--outputs", metavar="DIR", help="default: $BENCHKIT_OUTPUTS, else ./outputs")
    given = parse(made, sys.argv[1:] if argv is None else argv)
    return guarded(lambda: _prune(given) if given.action == "prune" else _stats(given), given.traceback)


def _stats(given: argparse.Namespace) -> int:
    from benchkit.store.outputs import Outputs
    from benchkit.store.usage import holdings, size_text

    outputs = Outputs(given.outputs)
    found = holdings(outputs)
    if given.json:
        print(json.dumps([_plain(each) for each in found], indent=1))
        return 0
    if not found:
        print(f"nothing is banked in {outputs.root}")
        return 0
    print(_table(found))
    total, shared = sum(each.bytes for each in found), sum(each.shared for each in found)
    unused = sum(each.bytes for each in found if not each.tags)
    print(
        f"{size_text(total)} in all; {size_text(shared)} of it is hard-linked into tags and is only freed with them; "
        f"{size_text(unused)} was used by no finished tag"
    )
    return 0


def _table(found: Sequence[Holding]) -> str:
    from benchkit.commands._tables import render
    from benchkit.store.usage import size_text

    rows = [
        [each.kind, each.name, size_text(each.bytes), _age_text(each.age), _tags(each.tags), each.about]
        for each in found
    ]
    return render(["kind", "name", "size", "written", "used by", "holds"], rows, "table")


def _prune(given: argparse.Namespace) -> int:
    from benchkit.errors import UsageError
    from benchkit.store.outputs import Outputs
    from benchkit.store.usage import delete, holdings, size_text

    if given.json:
        raise UsageError("--json is of stats; prune prints a line for each thing it deletes.")
    if not (given.names or given.unused or given.older):
        raise UsageError("say what to delete: names that `benchkit cache` shows, --unused, or --older 30d.")
    found = holdings(Outputs(given.outputs))
    _refuse_unknown(given.names, found)
    least = _seconds(given.older) if given.older else None
    chosen = [each for each in found if _goes(each, given.names, given.unused, least)]
    kept = [each for each in found if each not in chosen and not given.names and _chosen(each, given.unused, least)]
    if given.yes:
        for each in chosen:
            delete(each)
    verb = "deleted" if given.yes else "would delete"
    for each in chosen:
        print(f"{verb} {each.kind} {each.path} ({size_text(each.bytes)}; {_tags(each.tags)})")
    freed = sum(each.bytes - each.shared for each in chosen)
    print(f"{verb} {len(chosen)}, {size_text(freed)} freed" + ("" if given.yes or not chosen else "; --yes does it"))
    if kept:
        say(
            f"kept {len(kept)} that were written to within the hour, since an export may be at them; name them to delete."
        )
    return 0


def _goes(each: Holding, names: Sequence[str], unused: bool, least: float | None) -> bool:
    if names and each.name not in names:
        return False
    if each.busy and not names:
        return False
    return _chosen(each, unused, least)


def _chosen(each: Holding, unused: bool, least: float | None) -> bool:
    if unused and (each.tags or each.kind not in ("bank", "targets")):
        return False
    return least is None or each.age >= least


def _refuse_unknown(names: Sequence[str], found: Sequence[Holding]) -> None:
    from benchkit.errors import UsageError

    there = [each.name for each in found]
    odd = [name for name in names if name not in there]
    if odd:
        raise UsageError(f"{odd[0]!r} is nothing that `benchkit cache` shows; there are {', '.join(there) or 'none'}.")


def _seconds(text: str) -> float:
    from benchkit.errors import UsageError

    found = _AGE.fullmatch(text)
    if not found:
        raise UsageError(f"--older {text}: give a number of hours, days or weeks, such as 12h, 30d or 8w.")
    return int(found[1]) * _SECONDS[found[2]]


def _plain(each: Holding) -> dict[str, object]:
    facts = {"kind": each.kind, "path": str(each.path), "bytes": each.bytes, "shared": each.shared, "age": each.age}
    return {**facts, "tags": list(each.tags), "about": each.about}


def _tags(tags: Sequence[str]) -> str:
    return some(tags, 3) or "no tag"


def _age_text(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return "now"
