"""`benchkit doctor --data`: print copies of photos in one tag, draw them, and write what is flagged into its record."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.commands._tables import without_flagged
from benchkit.errors import RunError, UsageError, printable

if TYPE_CHECKING:
    from benchkit.duplicates.groups import Group
    from benchkit.duplicates.places import Places

PICTURE = "duplicates.png"
DRAWN = 24  # pairs
_ACROSS = 4  # pairs side by side
_SHOWN = 6  # names in a line
_WIDE = 32  # letters above a picture


def report_copies(given: argparse.Namespace) -> int:
    """Find, print, draw, record; the exit status is 0 whatever was found."""
    from benchkit.duplicates.find import THRESHOLDS, find_copies
    from benchkit.duplicates.groups import counts, flagged_items, make_groups
    from benchkit.duplicates.places import read_places
    from benchkit.eval._flagged import write_flagged

    folder, record = _finished(given)
    copies = find_copies(folder)
    places = read_places(folder, record, copies.views)
    groups = make_groups(copies, places)
    left_out = [*copies.left_out, *places.left_out]
    flagged: dict[str, Any] = {
        "groups": len(groups),
        "items": flagged_items(groups, places),
        "thresholds": THRESHOLDS,
        "left_out": left_out,
    }
    if not given.json:  # before the record is written: a folder that cannot be written can be looked at
        _print(folder, groups, places, len(copies.views), left_out)
    record = write_flagged(folder, record, flagged)
    if given.json:
        facts: dict[str, Any] = {"views": len(copies.views), "counts": counts(groups), "looked_at": copies.looked_at}
        facts |= {"groups": [group.plain(places) for group in groups], "flagged": record["flagged"]}
        print(json.dumps(facts, indent=1))
    elif flagged["items"]:
        count = f"{len(flagged['items'])} evaluated {'item' if len(flagged['items']) == 1 else 'items'}"
        print("; ".join([f"flagged: {count}, named in record.json", *without_flagged(record)]))
    if given.plot and groups:
        path = _sheet(folder, groups, places)
        if not given.json:
            print(f"picture: {path}")
    return 0


def _finished(given: argparse.Namespace) -> tuple[Path, dict[str, Any]]:
    """The folder and its record.

    Raises:
        UsageError: no folder was named, or one that holds no finished export.
        RunError: a file is missing or not that of the record.
    """
    from benchkit.provenance.record import matches, read_record

    if not given.path or not given.data:
        raise UsageError("say which export to look at: benchkit doctor --data outputs/results/<benchmark>/<tag>.")
    record = read_record(given.path)
    if record is None:
        raise UsageError(
            f"{given.path} holds no finished export: name the folder of one tag, outputs/results/<benchmark>/<tag>."
        )
    odd = matches(given.path, record, ("features.h5", "targets.h5"))
    if odd:
        raise RunError(
            f"{given.path / odd} is missing or not the file that record.json speaks of. Export again; the bank is reused."
        )
    return given.path, record


def _print(folder: Path, groups: Sequence[Group], places: Places, views: int, left_out: Sequence[str]) -> None:
    from benchkit.duplicates.groups import counts

    said = ", ".join(f"{what} {number}" for what, number in counts(groups).items() if number and what != "groups")
    print(f"{folder}: {views} views, {len(groups)} groups of copies{f' ({said})' if said else ''}")
    for group in groups:
        where = f"{group.where}, two labels" if group.two_labels else group.where
        print(f"  {where}; {', '.join(group.kinds)}: {_named(group, places)}")
    for reason in left_out:
        print(f"note: {reason}")


def _named(group: Group, places: Places) -> str:
    named = [_view(view, places) for view in group.views[:_SHOWN]]
    more = f" = and {len(group.views) - _SHOWN} more" if len(group.views) > _SHOWN else ""
    return " = ".join(named) + more


def _view(view: str, places: Places) -> str:
    """A view's name, printable, with its splits and labels."""
    name = printable(view)
    return f"{name} [{', '.join([*sorted(places.splits(view)), *sorted(places.labels(view))])}]"


def _sheet(folder: Path, groups: Sequence[Group], places: Places) -> Path:
    """Draw the first pairs side by side from the tag's thumbnails; returns the PNG."""
    from matplotlib.figure import Figure

    from benchkit.experiments.pictures import save

    pairs = [(pair, kind) for group in groups for pair, kind in group.pairs.items()]
    pairs = pairs or [((group.views[0], group.views[0]), group.kinds[0]) for group in groups]
    pairs = pairs[:DRAWN]
    rows = -(-len(pairs) // _ACROSS)
    figure = Figure(figsize=(3.4 * _ACROSS, 2.2 * rows))
    grid = figure.subplots(rows, 2 * _ACROSS, squeeze=False).reshape(-1, 2)
    pictures = _thumbs(folder, [view for pair, _ in pairs for view in pair])
    for axes in grid.ravel():
        axes.set_axis_off()
    for two, (pair, kind) in zip(grid, pairs, strict=False):
        for axes, view, title in zip(two, pair, (kind, ""), strict=True):
            if view in pictures:
                axes.imshow(pictures[view])
            named = _view(view, places)
            named = named if len(named) <= _WIDE else f"...{named[3 - _WIDE :]}"
            axes.set_title(f"{title}\n{named}", fontsize=6, parse_math=False)
    return save(figure, folder / PICTURE)


def _thumbs(folder: Path, views: Sequence[str]) -> dict[str, Any]:
    """Thumbnails of the views; none where the tag has none."""
    import numpy as np

    from benchkit.images import decode_fast
    from benchkit.store.table import Table

    if not (folder / "thumbs.h5").exists():
        return {}
    with Table(folder / "thumbs.h5", "thumbs") as table:
        return {v: decode_fast(np.asarray(table.item("thumb", table.position[v])).tobytes()) for v in views}
