"""Draw items of a tag: image, target, prediction and error side by side, the worst first.

Targets of pixels lie half-transparent over the image in one column, in the frame that was scored: a target that has slipped
against its image shows here. Invalid pixels are magenta. Pairs of views are drawn as wide as a page, with their matches.

examples:
  benchkit show depth efficientnet_lite0
  benchkit show semantic_segmentation efficientnet_lite0 --worst 12 --out worst.png
  benchkit show normals efficientnet_lite0 --items 0007 0012
  benchkit show relative_pose sift --worst 4
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.commands._shared import guarded, parse, parser, say

if TYPE_CHECKING:
    from benchkit.eval.base import Benchmark
    from benchkit.experiments.files import TagFiles
    from benchkit.experiments.frames import Frames

WORST = 6  # items that are drawn where nobody says which
MOST = 50  # rows that one picture holds


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    made = parser("benchkit show", __doc__)
    made.add_argument("benchmark", help="instance or family, as it was exported")
    made.add_argument("tag", help="name of the experiment")
    made.add_argument("--items", nargs="+", metavar="NAME", help="items to draw, in this order")
    made.add_argument("--worst", type=int, metavar="N", help=f"the N items with the worst score (default: {WORST})")
    made.add_argument("--outputs", metavar="DIR", help="default: $BENCHKIT_OUTPUTS, else ./outputs")
    made.add_argument("--out", metavar="FILE.png", help="default: show.png in the tag's folder")
    given = parse(made, sys.argv[1:] if argv is None else argv)
    return guarded(lambda: _run(given), given.traceback, goes_on=False)


def _run(given: argparse.Namespace) -> int:
    from benchkit.experiments.experiment import family_of
    from benchkit.experiments.files import TagFiles
    from benchkit.experiments.pictures import save
    from benchkit.experiments.ranking import Ranking

    folder, record = _exported(given)
    family = family_of(record)
    with TagFiles(folder) as files:
        ranking = Ranking(folder, family)
        chosen = _chosen(given, files.targets.names, ranking.worst())
        captions = {item: ": ".join(filter(None, (item, ranking.caption(item)))) for item in chosen}
        draw = _dense if family.dense else _pairs if files.count_views() == 2 else _drawn
        figure = draw(files, record, family, captions)
    path = Path(given.out) if given.out else folder / "show.png"
    print(f"picture: {save(figure, path, tight=False)}")
    return 0


def _exported(given: argparse.Namespace) -> tuple[Path, dict[str, Any]]:
    from benchkit.errors import UsageError
    from benchkit.eval._checks import read_exported, refuse_absent
    from benchkit.store.outputs import Outputs

    if given.items and given.worst is not None:
        raise UsageError("--items says which items are drawn and --worst how many: give one of them.")
    if given.out and Path(given.out).suffix.lower() != ".png":
        raise UsageError(f"--out {given.out}: the picture is a PNG, so its name ends with .png.")
    folder = Outputs(given.outputs).tag(given.benchmark, given.tag)
    if not folder.is_dir():
        refuse_absent(folder, given.benchmark, given.tag)
    return folder, read_exported(folder, given.benchmark, given.tag)


def _chosen(given: argparse.Namespace, names: Sequence[str], worst: Sequence[str]) -> list[str]:
    """Items asked for, else the first of `worst`; those without a score come last, in name order."""
    from benchkit.conf.find import nearest
    from benchkit.errors import UsageError

    count = WORST if given.worst is None else given.worst
    if count < 1 or max(count, len(given.items or ())) > MOST:
        raise UsageError(f"one picture shows 1 to {MOST} items: ask for so many with --worst or --items.")
    known = set(names)
    for odd in (item for item in given.items or () if item not in known):
        raise UsageError(
            f"--items {odd}: {given.benchmark} / {given.tag} has no such item. {nearest(odd, names)}"
            f"It has {len(names)}, such as {', '.join(names[:3])}."
        )
    if given.items:
        return list(dict.fromkeys(given.items))
    return list(dict.fromkeys((*worst, *names)))[:count]


def _dense(files: TagFiles, record: Mapping[str, Any], family: Benchmark, captions: Mapping[str, str]) -> Any:
    from matplotlib.figure import Figure

    from benchkit.experiments.frames import Frames
    from benchkit.viz import panels as viz

    field, frames, rows = family.needs[0], Frames(record), []
    for item, caption in captions.items():
        prediction, target, thumb = files.item(item)
        given = prediction[field], target[field], target["meta"]
        predicted, truth, meta = family.pictured(*given, files.predictions.meta)
        image = frames.image(item, thumb, (truth.shape[0], truth.shape[1]))
        present = viz.present_in(field, predicted, truth, meta)
        rows.append(viz.Row(caption, viz.panels(field, predicted, truth, meta, image), present))
    if not all(len(row.panels) == len(rows[0].panels) for row in rows):  # some without image and thumbnail
        rows = [viz.Row(row.caption, row.panels[-3:], row.present) for row in rows]
    figure = Figure()
    viz.sheet(figure, rows, list(meta.get("classes", ())), _title(record) + _thumbs_said(frames, len(rows)))
    return figure


def _pairs(files: TagFiles, record: Mapping[str, Any], family: Benchmark, captions: Mapping[str, str]) -> Any:
    """Pairs of views as the family draws them, on the images themselves."""
    from matplotlib.figure import Figure

    from benchkit.experiments.frames import Frames
    from benchkit.viz import pairs as viz

    frames, draws = Frames(record), []
    for item, caption in captions.items():
        views = frames.views(item, files.views(item), files.thumbnails(item))
        draws.append((caption, _with_views(family, *files.fields(item), views)))
    figure = Figure()
    viz.sheet(figure, draws, _title(record) + _thumbs_said(frames, len(draws)), family.legend())
    return figure


def _with_views(family: Benchmark, prediction: Any, target: Any, views: Any) -> Callable[[Any], None]:
    return lambda axes: family.draw(axes, prediction, target, views)


def _thumbs_said(frames: Frames, count: int) -> str:
    """Tells of items that are shown as thumbnails; returns what the title says of it."""
    if not frames.from_thumbs:
        return ""
    said = "the data set cannot be read here as it was exported, so images are thumbnails of 96 pixels, enlarged"
    say(f"{len(frames.from_thumbs)} of {count} items: {said}: a slip of a few pixels cannot be seen.")
    return " (images: enlarged thumbnails)"


def _drawn(files: TagFiles, record: Mapping[str, Any], family: Benchmark, captions: Mapping[str, str]) -> Any:
    """Items as the family draws them, for those whose truth is no map."""
    from matplotlib.figure import Figure

    from benchkit.experiments.pictures import write_below
    from benchkit.viz.pairs import wrapped

    across = min(len(captions), 6 if files.count_views() == 1 else 3)
    down = -(-len(captions) // across)
    wide = max(2.4 * across, 5)
    figure = Figure(figsize=(wide, 2.6 * down + 0.4), layout="tight")
    grid = figure.subplots(down, across, squeeze=False).ravel()
    for axes, (item, caption) in zip(grid, captions.items(), strict=False):
        family.draw(axes, *files.item(item))
        write_below(axes, caption)
    for axes in grid[len(captions) :]:
        axes.set_axis_off()
    figure.suptitle(wrapped(_title(record), wide), parse_math=False, fontsize=9)
    return figure


def _title(record: Mapping[str, Any]) -> str:
    scores = record["scores"] or {}
    shown = "".join(
        f"   {name} {score['value']:.3f}" for name, score in list(scores.items())[:1] if score["value"] is not None
    )
    return f"{record['benchmark']} / {record['tag']}{shown}"
