"""What a user says about one benchmark: which layers of a conf and of the arguments apply, and what cannot be there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchkit.conf.find import benchmark_names, find_benchmark, nearest
from benchkit.conf.layers import SECTIONS, Layer
from benchkit.conf.schema import homes
from benchkit.errors import UsageError

CONF_KEYS = ("model", "benchmarks", "pretrained_on", "source", "licence", "parameters", "title")


def user_layers(conf: Layer, arguments: Layer, benchmark: str) -> list[Layer]:
    """What the user says about this benchmark: the conf, its benchmarks.<name>, arguments, and those for one benchmark.

    Raises:
        UsageError: a key that does not belong at the top of a conf or argument, or a benchmark that does not exist.
    """
    _check_top(conf, CONF_KEYS, "a conf has")
    _check_top(arguments, (*SECTIONS, "benchmarks"), "an argument starts with")
    for layer in (conf, arguments):
        _check_benchmarks(layer, benchmark)
    return [
        conf.only("model"),
        conf.below("benchmarks", benchmark),
        arguments.only(*SECTIONS),
        arguments.below("benchmarks", benchmark),
    ]


def _check_top(layer: Layer, allowed: Sequence[str], what: str) -> None:
    for key in layer.values:
        if key in allowed:
            continue
        where = f"{key} ({layer.source(key)})"
        if key in SECTIONS:
            raise UsageError(
                f"{where}: a conf names a model; settings of a benchmark belong under benchmarks.<name>.{key}."
            )
        raise UsageError(
            f"{where}: there is no such key; {nearest(key, allowed)}{what} {', '.join(allowed)}{_belongs(key)}."
        )


def _belongs(key: str) -> str:
    found = homes(key)
    return f"; {key} belongs under {found}" if found else ""


def _check_benchmarks(layer: Layer, current: str) -> None:
    chosen = layer.values.get("benchmarks")
    if chosen is not None and not isinstance(chosen, Mapping):
        raise UsageError(f"benchmarks ({layer.source('benchmarks')}): this is a section; write benchmarks.<name>.data.")
    for name, sections in (chosen or {}).items():
        where = f"benchmarks.{name} ({layer.source(f'benchmarks.{name}')})"
        if name != current and name not in benchmark_names():
            _refuse_unknown(name, where)
        if sections is not None and not isinstance(sections, Mapping):
            raise UsageError(f"{where}: this is a section; write benchmarks.{name}.data and keys below it.")
        for key in sections or {}:
            if key not in SECTIONS:
                place = f"benchmarks.{name}.{key}"
                raise UsageError(
                    f"{place} ({layer.source(place)}): there is no such key; {nearest(key, SECTIONS)}"
                    f"benchmarks.{name} has {', '.join(SECTIONS)}{_belongs(key)}."
                )


def _refuse_unknown(name: str, where: str) -> None:
    try:
        find_benchmark(name)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
