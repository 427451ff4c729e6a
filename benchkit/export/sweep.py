"""One call, several tags: a tag per layer (`model.features.layers=all`), or per value of a head's swept setting.

All tags of a sweep read one bank, so it costs one forward; each is an experiment of its own, compared and shown like any
other. `final` keeps the plain tag, layers add `+layer03`, values `+5shot`. A best layer that is picked from such tags was
picked on the evaluated items.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from benchkit.conf.build import Conf
from benchkit.export.job import Job
from benchkit.features import FINAL

ALL = "all"


@dataclasses.dataclass(frozen=True)
class Variation:
    """One tag of a sweep.

    Attributes:
        suffix: what its tag ends with.
        arguments: the settings that make it.
        place: (what is swept, value), for tables and axes; the value of `final` is the number of layers.
    """

    suffix: str = ""
    arguments: tuple[str, ...] = ()
    place: tuple[str, float] | None = None


def varied(job: Job, rebuild: Callable[[Sequence[str]], Conf], say: Callable[[str], None]) -> list[Job]:
    """The jobs of a sweep; the job itself where nothing is swept. They share the data set, its facts and the model.

    Args:
        job: with the settings as they were given.
        rebuild: the conf with further arguments.
        say: gets a note.

    Raises:
        UsageError: as `build`; or the model cannot be loaded to see how many layers it has.
    """
    variations = [v for v in _layers(job, say)]
    variations = [_both(one, other) for one in variations for other in _values(job)]
    if variations == [Variation()]:
        return [job]
    return [job.variation(rebuild(v.arguments), v.suffix, v.place) for v in variations]


def _layers(job: Job, say: Callable[[str], None]) -> list[Variation]:
    wants = job.head.wants()
    if job.conf.model.features.layers != ALL or wants.kind is None or wants.pool or wants.layers:
        return [Variation()]
    backbone = job.model.backbone
    final = Variation("", (f"model.features.layers={FINAL}",), ("layer", float(backbone.depth)))
    if not backbone.inner_pools:
        return [final]
    pool = job.conf.model.features.pool
    extra: tuple[str, ...] = ()
    if wants.kind == "pool" and pool == "default" and backbone.own_pool not in backbone.inner_pools:
        extra = ("model.features.pool=mean",)
        say(
            f"{backbone.name} has {backbone.own_pool} at its final output only: its numbered layers are pooled by mean."
        )
    width = len(str(backbone.depth - 1))
    return [final] + [
        Variation(f"+layer{n:0{width}d}", (f"model.features.layers={n}", *extra), ("layer", float(n)))
        for n in range(backbone.depth)
    ]


def _values(job: Job) -> list[Variation]:
    """A variation per value of a setting that is marked as swept and has several."""
    settings: Any = job.conf.head.settings
    found = [Variation()]
    for field in dataclasses.fields(settings):
        unit, values = field.metadata.get("sweep"), getattr(settings, field.name)
        if unit and isinstance(values, list) and len(values) > 1:
            several = [
                Variation(f"+{value}{unit}", (f"model.head.{field.name}={value}",), (f"{unit}s", float(value)))
                for value in dict.fromkeys(values)
            ]
            found = [_both(one, other) for one in found for other in several]
    return found


def _both(one: Variation, other: Variation) -> Variation:
    return Variation(one.suffix + other.suffix, one.arguments + other.arguments, other.place or one.place)
