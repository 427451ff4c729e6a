"""Where confs and benchmarks are found: a stem from `configs/`, or a path."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Iterable
from pathlib import Path

from benchkit import registry
from benchkit.conf.layers import Layer, read_yaml
from benchkit.conf.values import Plain
from benchkit.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent.parent
ABOUT_KEYS = ("family", "title", "obtain", "licence", "layout", "overlaps")
PLACE_KEYS = (
    "folder",
    "holds",
    "download",
)  # where data are looked for, what is there when they are, what fetches them
BENCHMARK_KEYS = (*ABOUT_KEYS, *PLACE_KEYS, "data", "model", "eval")


@dataclasses.dataclass
class BenchmarkConf:
    """A benchmark by name: its family and, for an instance, the layer of its yaml (else an empty one)."""

    name: str
    family: str
    layer: Layer


def configs_dir() -> Path:
    """The folder of the shipped confs: `configs/` of a checkout, or its copy inside an installed package."""
    checkout = _PACKAGE.parent / "configs"
    return checkout if (_PACKAGE.parent / "pyproject.toml").is_file() else _PACKAGE / "configs"


def conf_names() -> list[str]:
    """Stems of the shipped confs, sorted."""
    return _stems(configs_dir())


def benchmark_names() -> list[str]:
    """Instances (configs/benchmarks) and families, sorted."""
    return sorted({*_stems(configs_dir() / "benchmarks"), *registry.names("eval")})


def find_conf(name_or_path: str | Path) -> Path:
    """The file of a conf.

    Raises:
        UsageError: there is no such file; the message names the nearest stems.
    """
    path = Path(name_or_path) if _is_path(name_or_path) else configs_dir() / f"{name_or_path}.yaml"
    if os.path.isfile(path):  # false for what no path can be
        return path
    what = f"{str(name_or_path)!r}"
    if _is_path(name_or_path):
        what += f" (looked for {path.absolute()})"
    raise UsageError(
        f"there is no conf {what}: {nearest(path.stem, conf_names())}--conf takes the path of a yaml or one of "
        f"{', '.join(conf_names()) or '(none are shipped)'}."
    )


def find_benchmark(name: str) -> BenchmarkConf:
    """The benchmark of that name: an instance, a family, a dotted path to a family, or the path of an instance's yaml.

    Raises:
        UsageError: there is none; the message names the nearest ones. Or its yaml is wrong.
    """
    path = Path(name) if _is_path(name) else configs_dir() / "benchmarks" / f"{name}.yaml"
    if os.path.isfile(path):
        layer = read_yaml(path)
        return BenchmarkConf(path.stem, _family(layer), layer)
    if name in registry.names("eval") or ("." in name and not _is_path(name)):
        return BenchmarkConf(registry.find("eval", name).name, name, Layer({}, {}))
    raise UsageError(
        f"no benchmark is called {name!r}: {nearest(name, benchmark_names())}there are {', '.join(benchmark_names())}."
    )


def data_home() -> Path:
    """Where the data of instances lie side by side: $BENCHKIT_DATA, else ./data."""
    return Path(os.environ.get("BENCHKIT_DATA") or "data").expanduser()


def data_folder(benchmark: BenchmarkConf) -> Path:
    """Where an instance's data are looked for when nobody gives data.root: `folder` (its name) below `data_home`."""
    return data_home() / str(benchmark.layer.values.get("folder", benchmark.name))


def nearest(name: str, names: Iterable[str]) -> str:
    """`did you mean 'x' or 'y'? ` for the names that look like `name`, or nothing."""
    near = difflib.get_close_matches(name, list(names), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(map(repr, near))}? " if near else ""


def _family(layer: Layer) -> str:
    for key in layer.values:
        if key not in BENCHMARK_KEYS:
            hint = nearest(key, BENCHMARK_KEYS)
            raise UsageError(
                f"{key} ({layer.source(key)}): there is no such key; {hint}a benchmark has {', '.join(BENCHMARK_KEYS)}."
            )
    family = layer.values.get("family")
    if not isinstance(family, str):
        raise UsageError(f"{layer.source('family')}: a benchmark names its family (family: classification).")
    return str(Plain(family))


def _is_path(name: str | Path) -> bool:
    return isinstance(name, Path) or name.endswith((".yaml", ".yml")) or "/" in name or os.sep in name


def _stems(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml"))
