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
from benchkit.errors import UsageError
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

    suffix: str
    arguments: tuple[str, ...]
    place: tuple[str, float]


def varied(job: Job, rebuild: Callable[[Sequence[str]], Conf], say: Callable[[str], None]) -> list[Job]:
    """The jobs of a sweep; the job itself where nothing is swept. They share the data set, its facts and the model.

    Args:
        job: with the settings as they were given.
        rebuild: the conf with further arguments.
        say: gets a note.

    Raises:
        UsageError: as `build`; several things are swept at once; or the model cannot be loaded to see how many layers it has.
    """
    sweeps = [found for found in (_layers(job, say), *_values(job)) if found]
    if len(sweeps) > 1:
        raise UsageError(
            f"{job.conf.benchmark}: both {' and '.join(found[-1].arguments[0] for found in sweeps)} are among several: sweep one "
            "thing at a time, and give the others one value."
        )
    if not sweeps:
        return [job]
    return [job.variation(rebuild(v.arguments), v.suffix, v.place) for v in sweeps[0]]


def _layers(job: Job, say: Callable[[str], None]) -> list[Variation]:
    wants = job.head.wants()
    if job.conf.model.features.layers != ALL or wants.kind is None or wants.pool or wants.layers:
        return []
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


def _values(job: Job) -> list[list[Variation]]:
    """For each setting of the head that is marked as swept and has several values: a variation per value."""
    settings: Any = job.conf.head.settings
    found = []
    for field in dataclasses.fields(settings):
        unit, values = field.metadata.get("sweep"), getattr(settings, field.name)
        if unit and isinstance(values, list) and len(values) > 1:
            found.append([_valued(field.name, unit, value) for value in dict.fromkeys(values)])
    return found


def _valued(name: str, unit: str, value: Any) -> Variation:
    return Variation(f"+{value}{unit}", (f"model.head.{name}={value}",), (f"{unit}s", float(value)))
