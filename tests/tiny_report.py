"""Scored tags for reports: photos, a class and tags with names that would be markup, and a tag that lacks an item."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from tiny_experiments import another, noisy

from benchkit.eval import evaluate
from benchkit.experiments.experiment import Experiment
from benchkit.export import export
from benchkit.provenance.record import read_record, sealed
from benchkit.store.files import write_json
from benchkit.store.outputs import Outputs

HOSTILE = "<img src=x onerror=hacked=1>"
TEX = r"$$\frac{1}{2}$$"
CLASS = "<b onclick=hacked=1>&amp;"
ITEM = '"><script>hacked=1<!--\u2028'
TAGS = ("plain", HOSTILE, TEX)


def photos(root: Path, per_class: int = 4) -> Path:
    """A folder per split and class of small pictures, each class of a colour of its own."""
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        for hue, name in enumerate((CLASS, "red", "blue")):
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(per_class):
                picture = rng.integers(0, 160, (40, 32, 3), np.uint8)
                picture[..., hue] += 60
                odd = ITEM if (split, hue, number) == ("test", 0, 0) else f"{number}"
                Image.fromarray(picture).save(folder / f"{odd}.png")
    return root


def reported(root: Path) -> Outputs:
    """Outputs below `root` with TAGS of classification and one of retrieval."""
    where = Outputs(root / "outputs")
    data = f"data.root={photos(root / 'photos')}"
    for benchmark in ("classification", "retrieval"):
        (end,) = export("color_histogram", benchmark, tag="plain", arguments=[data], outputs=where.root, say=_silent)
        if isinstance(end, Exception):
            raise end
        evaluate(benchmark, "plain", outputs=where.root)
    first = Experiment(where.tag("classification", "plain"))
    for seed, tag in enumerate(TAGS[1:]):
        another(first, tag, noisy(1.5, seed))
    _slower(first.folder.with_name(TEX))
    return where


def _slower(folder: Path) -> None:
    """A tag whose images took twice as long, so that tags differ in a cost."""
    record = read_record(folder)
    if record is None:
        raise FileNotFoundError(folder)
    timings = {**record["timings"], "images_per_second": record["timings"]["images_per_second"] / 2}
    write_json(folder / "record.json", sealed({**record, "timings": timings}))


def _silent(text: str) -> None:
    """Takes what export tells of its progress."""
