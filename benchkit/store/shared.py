"""Mend what experiments share: banks, truth of splits, what is remembered of data folders. All of it can be made again, and
damaged files are kept under another name, so that the next export makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchkit.errors import BenchkitError
from benchkit.provenance.identity import identity_hash
from benchkit.store.checking import folder_hash
from benchkit.store.files import changing, write_json
from benchkit.store.lock import exclusive
from benchkit.store.salvage import move_aside, salvage
from benchkit.store.table import Table
from benchkit.store.twins import put_copy, tags_of, whole_copy


def mender(file: Path) -> Callable[[Path], str] | None:
    """What mends a damaged file that experiments share, and returns what it did in words; None where it is none of these."""
    if file.name == "identity.json" and folder_hash(file.parent):
        return _mend_identity
    if file.name.startswith("part-") and folder_hash(file.parent):
        return _mend_part
    return {"targets": _mend_targets, "manifests": _remove_manifest}.get(file.parent.name)


def _mend_part(file: Path) -> str:
    bank = folder_hash(file.parent)
    for folder, record in tags_of(file.parents[2]):
        facts = record["files"].get(f"features/{file.name}", {})
        if record["backbone"]["identity_hash"][:8] == bank and facts.get("content"):
            copy = whole_copy([folder / "features" / file.name], facts["content"])
            if copy:
                return put_copy(copy, file)
    kept, count = salvage(file)
    aside = move_aside(file)
    rows = f"{kept} of its {count} rows are whole and lie in a part of their own; " if count else ""
    return f"moved aside to {aside.name}; {rows}what is missing is forwarded by the next export that needs it"


def _mend_targets(file: Path) -> str:
    copy = whole_copy((folder / "targets.h5" for folder, _ in tags_of(file.parents[1])), file.stem)
    if copy:
        return put_copy(copy, file)
    return f"moved aside to {move_aside(file).name}; the next export that needs it makes it again"


def _remove_manifest(file: Path) -> str:
    with exclusive(file.with_suffix(".lock")), changing(file):
        file.unlink(missing_ok=True)
    return "removed; the next export examines the files of that data folder again"


def _mend_identity(file: Path) -> str:
    for part in sorted(file.parent.glob("part-*.h5")):
        try:
            with Table(part, "bank") as table:
                identity = table.meta.get("identity")
        except BenchkitError:
            continue
        if isinstance(identity, dict) and identity_hash(identity).startswith(folder_hash(file.parent)):
            write_json(file, identity)
            return f"written again as {part.name} says it"
    return f"moved aside to {move_aside(file).name}; the next export writes it again"
