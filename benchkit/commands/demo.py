"""The whole path in about a minute: a pretrained model, its random twin and a colour histogram on generated scenes.

Needs no network and no data; the weights come with the extra `demo`. Every benchmark that has generated data takes part.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchkit.commands._shared import guarded, parse, parser, say
from benchkit.commands._tables import number, render

# Per-pixel families learn from thousands of pixels an item: fewer items do. So few need BatchNorm and a higher rate than the
# protocol's, or no head is trained to its end (chosen on these scenes; the same for all models).
FEW, MANY = ("data.n_train=24", "data.n_test=12"), ("data.n_train=200", "data.n_test=100")
PIXELS = (
    "model.head.batchnorm=true",
    "model.head.lr=0.02",
    "model.head.batch_size=4",
    "model.head.epochs=4",
)
LAYERS = "model.features.layers="
STAGES = f"{LAYERS}2,3,4"  # maps of 28, 14 and 7 cells a side
MODELS: tuple[tuple[str, bool, bool], ...] = (  # conf, random weights, whether it has stages
    ("efficientnet_lite0", False, True),
    ("efficientnet_lite0", True, True),
    ("color_histogram", False, False),
)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    made = parser("benchkit demo", __doc__)
    made.add_argument("--outputs", metavar="DIR", help="default: $BENCHKIT_OUTPUTS, else ./outputs")
    made.add_argument(
        "--extended", action="store_true", help="per-pixel benchmarks on 200 + 100 scenes instead of 24 + 12 (minutes)"
    )
    given = parse(made, sys.argv[1:] if argv is None else argv)
    return guarded(lambda: run_demo(given), given.traceback)


def run_demo(given: argparse.Namespace) -> int:
    """Export and score every family for every model, then print one table and leave a picture."""
    from benchkit import registry
    from benchkit.experiments.pictures import contact_sheet, score_bars
    from benchkit.store.outputs import Outputs

    started = time.monotonic()
    families = registry.names("eval")
    records: dict[str, dict[str, dict[str, Any]]] = {family: {} for family in families}
    for model in MODELS:
        for record in _scored(*model, families, given.extended, given.outputs):
            records[record["benchmark"]][record["tag"]] = record
    print(render(*_rows(records), "table"))
    _say_unfinished([record for by_tag in records.values() for record in by_tag.values()])
    print("generated scenes: they compare models under one condition and stand for no photograph")
    root = Outputs(given.outputs).root
    pictures = [score_bars(root / "demo.png", records)]
    first = next(iter(records.get("classification", {}).values()), None)
    if first:
        pictures.append(contact_sheet(root / "results" / "classification" / first["tag"], first))
    print(f"files: {root / 'results'}; pictures: {', '.join(map(str, pictures))}")
    print(
        f"{time.monotonic() - started:.0f} s. Your own photos: benchkit run --conf efficientnet_lite0 "
        "--benchmark classification data.root=DIR"
    )
    return 0 if all(records.values()) else 3


def _scored(
    conf: str,
    random: bool,
    stages: bool,
    families: Sequence[str],
    extended: bool,
    outputs: str | Path | None,
) -> list[dict[str, Any]]:
    """The records of one model; the extended ones have tags of their own."""
    from benchkit.errors import BenchkitError
    from benchkit.eval import evaluate
    from benchkit.export import export
    from benchkit.export.job import Outcome

    found = []
    ends = export(
        conf,
        families,
        tag=f"{conf}{'+random' if random else ''}+extended" if extended else None,
        arguments=_smaller(families, stages, extended),
        random=random,
        outputs=outputs,
        say=lambda text: None,
        command="benchkit demo",
    )
    for end in ends:
        try:
            if not isinstance(end, Outcome):
                raise end
            found.append(evaluate(end.benchmark, end.tag, outputs=outputs).record)
        except BenchkitError as error:  # a model that cannot do a benchmark shows as n/a
            say(f"{conf}: {error}")
    return found


def _smaller(families: Sequence[str], stages: bool, extended: bool) -> list[str]:
    """Settings of the families whose items are maps, and of those that say with what they show something."""
    from benchkit import registry

    of_pixels = [*(MANY if extended else FEW), *PIXELS, *[STAGES] * stages]
    found = ["data.size=224"]  # also where a protocol asks for more
    for family in families:
        build = registry.find("eval", family).build
        wanted = (
            [*of_pixels] if build.dense else [each for each in build.trial if stages or not each.startswith(LAYERS)]
        )
        found += [f"benchmarks.{family}.{setting}" for setting in wanted]
    return found


def _say_unfinished(records: Sequence[Mapping[str, Any]]) -> None:
    """How many heads would still have learned."""
    ends = [record["head"]["log"]["converged"] for record in records if "still_falling" in record["head"]["log"]]
    if ends.count(0):
        print(
            f"{ends.count(0)} of {len(ends)} heads of pixels were still learning after the demo's few steps; benchkit run "
            "says of each how much may be left"
        )


def _rows(records: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> tuple[list[str], list[list[str]]]:
    """One row per benchmark: its headline metric for every model, with interval, and the floor."""
    tags = list(dict.fromkeys(tag for by_tag in records.values() for tag in by_tag))
    rows = []
    for benchmark, by_tag in records.items():
        if not by_tag:
            continue
        metric, score = next(iter(next(iter(by_tag.values()))["scores"].items()))
        cells = [_cell(by_tag[tag]["scores"][metric]) if tag in by_tag else "n/a" for tag in tags]
        rows.append([benchmark, f"{metric} ({score['better']})", *cells, number(score["floor"])])
    return ["benchmark", "metric (better)", *tags, "floor"], rows


def _cell(score: Mapping[str, Any]) -> str:
    interval = f" [{number(score['interval'][0])}, {number(score['interval'][1])}]" if score["interval"] else ""
    return number(score["value"]) + interval
