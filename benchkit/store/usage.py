"""What lies in the outputs folder, how much room it takes, and which experiments still hold it.

A finished tag has its own copy (or hard link) of everything it needs, so deleting a bank or a target file takes nothing
from it; what is lost is that the next head, layer or benchmark has to forward the images again.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchkit.errors import BenchkitError, RunError
from benchkit.provenance import strict
from benchkit.provenance.identity import identity_hash
from benchkit.provenance.record import read_record
from benchkit.store.files import owner
from benchkit.store.outputs import Outputs
from benchkit.store.table import Table

BUSY_SECONDS = 3600.0  # what was written to within an hour may belong to an export that runs


@dataclasses.dataclass(frozen=True)
class Holding:
    """One bank, or one file of targets or of remembered data folders.

    Attributes:
        kind: bank, targets, manifest or unfinished.
        path: folder or file.
        bytes: of its files; shared: of those, hard-linked into tags, so that deleting frees nothing.
        age: seconds since something was last written.
        tags: `<benchmark>/<tag>` of the finished experiments that were made from it.
        about: rows, keys and settings, in words.
    """

    kind: str
    path: Path
    bytes: int
    shared: int
    age: float
    tags: tuple[str, ...] = ()
    about: str = ""

    @property
    def name(self) -> str:
        """How it is called in tables and by `prune`."""
        return "/".join(self.path.parts[-3:]) if self.path.name == ".parts" else self.path.name

    @property
    def busy(self) -> bool:
        """Whether it was written to so lately that somebody may be at it."""
        return self.age < BUSY_SECONDS


def holdings(outputs: Outputs) -> list[Holding]:
    """Everything below the outputs folder that can be made again, largest first."""
    users = _users(outputs)
    found = [_bank(folder, users) for folder in _folders(outputs.root / "features")]
    found += [_file("targets", path, users[path.stem]) for path in _files(outputs.root / "targets")]
    found += [_file("manifest", path, ()) for path in _files(outputs.root / "manifests")]
    unfinished = (path for path in outputs.root.glob("results/*/*/.parts") if path.is_dir())
    found += [
        _folder("unfinished", path, (), "an export that has not finished: its plan and parts") for path in unfinished
    ]
    temporary = (path for path in outputs.root.rglob("*.tmp-*") if ".parts" not in path.parts)
    found += [_file("unfinished", path, ()) for path in temporary if owner(path) in ("dead", "elsewhere")]
    return sorted(found, key=lambda h: (-h.bytes, h.path))


def _users(outputs: Outputs) -> dict[str, list[str]]:
    """Names of finished tags by the bank's identity hash and by the names of their files of targets."""
    users: dict[str, list[str]] = defaultdict(list)
    for benchmark in outputs.benchmarks():
        for tag in outputs.tags(benchmark):
            try:
                record = read_record(outputs.tag(benchmark, tag))
            except BenchkitError:  # a damaged tag holds nothing; doctor says so
                continue
            if record:
                for key in _keys(record, outputs):
                    users[key].append(f"{benchmark}/{tag}")
    return users


def _keys(record: dict[str, Any], outputs: Outputs) -> list[str]:
    hashes = [record["data"].get("targets"), record["data"].get("train_targets")]
    return [record["backbone"]["identity_hash"], *(outputs.targets(each).stem for each in hashes if each)]


def _bank(folder: Path, users: dict[str, list[str]]) -> Holding:
    identity = _identity(folder)
    tags = users.get(identity.get("hash", ""), [])
    return _folder("bank", folder, tags, _about_bank(folder, identity))


def _identity(folder: Path) -> dict[str, Any]:
    """The identity of a bank and its hash; empty where the file is gone or damaged."""
    try:
        identity = strict.read(folder / "identity.json")
        return {**identity, "hash": identity_hash(identity)}
    except (OSError, ValueError, TypeError):
        return {}


def _about_bank(folder: Path, identity: dict[str, Any]) -> str:
    parts = sorted(folder.glob("part-*.h5"))
    rows, keys = 0, set()
    for path in parts:
        try:
            with Table(path, "bank") as table:
                rows += len(table.names)
                keys |= {column.removeprefix("features/") for column in table.columns if column.startswith("features/")}
        except BenchkitError:
            return f"damaged: {path.name} (benchkit doctor {folder})"
    pre = identity.get("preprocess", {})
    size = f", {pre['resize']} {pre['size']} px, {identity['precision']}" if pre else ""
    return f"{rows:,} rows in {len(parts)} parts: {', '.join(sorted(keys)) or 'no features'}{size}"


def _file(kind: str, path: Path, tags: Sequence[str]) -> Holding:
    stat = path.stat()
    shared = stat.st_size if stat.st_nlink > 1 else 0
    return Holding(kind, path, stat.st_size, shared, _age(stat.st_mtime), tuple(tags))


def _folder(kind: str, folder: Path, tags: Sequence[str], about: str) -> Holding:
    stats = [path.stat() for path in folder.rglob("*") if path.is_file()]
    size, shared = sum(s.st_size for s in stats), sum(s.st_size for s in stats if s.st_nlink > 1)
    age = _age(max((s.st_mtime for s in stats), default=folder.stat().st_mtime))
    return Holding(kind, folder, size, shared, age, tuple(tags), about)


def _age(changed: float) -> float:
    """Seconds since then; nothing is younger than now, whatever the clock was set to."""
    return max(time.time() - changed, 0.0)


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def _files(root: Path) -> list[Path]:
    return sorted(root.glob("*.h5")) if root.is_dir() else []


def delete(holding: Holding) -> None:
    """Delete a holding. A bank that is deleted half is a smaller bank: each part is whole without the others.

    Raises:
        RunError: it cannot be deleted.
    """
    try:
        if holding.path.is_dir():
            shutil.rmtree(holding.path)
        else:
            holding.path.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(
            f"{holding.path} cannot be deleted ({error.strerror}): check the folder's permissions."
        ) from error


def size_text(count: float) -> str:
    """Bytes in words: 3 significant digits, decimal units."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
