"""Verify every checksum below a path, and hash its content.

Tables carry checksums of their own; summaries.json and a head's weights are compared with the sha256 in the record
beside them, a record with its own seal, and a bank's identity with the name of its folder.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from benchkit.errors import BenchkitError, RunError, reason
from benchkit.provenance import strict
from benchkit.provenance.identity import canonical, identity_hash
from benchkit.provenance.record import NAME as RECORD
from benchkit.provenance.record import SEAL, file_sha256, seal_of
from benchkit.provenance.shape import is_below
from benchkit.store.content import features_hash, table_hash
from benchkit.store.features import TagFeatures
from benchkit.store.table import Table

OUTSIDE = ("thumbs.h5", RECORD, "conf.yaml", "identity.json")  # verified, but no part of a folder's content
UNFINISHED = (".parts", ".locks")


def verify_tree(path: Path) -> dict[str, Any]:
    """Check all files below `path`.

    Returns:
        files: per relative name its content hash (or None) and what is wrong; content: hash over predictions, targets,
        results, summaries and feature values of each folder; damaged: how many files are.
    """
    found: dict[tuple[int, int], str] = {}  # by inode: parts and targets have a name in the tag and one in the bank
    report: dict[str, Any] = {}
    for file in _files(path):
        name = file.name if path.is_file() else file.relative_to(path).as_posix()
        try:
            report[name] = {"content": _verified(file, found), "problem": ""}
        except BenchkitError as error:
            report[name] = {"content": None, "problem": str(error)}
    parts = {name: facts["content"] for name, facts in report.items() if _counts(name)}
    return {
        "files": report,
        "content": identity_hash(parts),
        "damaged": sum(facts["content"] is None for facts in report.values()),
    }


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    suffixes = (".h5", ".json", ".safetensors")
    files = sorted(p for p in path.rglob("*") if (p.suffix in suffixes or p.name == "conf.yaml") and p.is_file())
    return [f for f in files if not set(UNFINISHED) & set(f.relative_to(path).parts)]


def folder_content(folder: Path) -> str:
    """Content hash of one tag's folder: predictions, targets, results, summaries and feature values."""
    found = {name: _content(folder / name) for name in sorted(p.name for p in folder.iterdir()) if _counts(name)}
    return identity_hash(found)


def _counts(name: str) -> bool:
    base = name.rsplit("/", 1)[-1]
    return (
        base not in OUTSIDE
        and not base.startswith("part-")
        and base.endswith((".h5", ".json"))
        and "manifests" not in name
    )


def _verified(file: Path, found: dict[tuple[int, int], str]) -> str:
    status = file.stat()
    inode = (status.st_dev, status.st_ino)
    if inode in found:
        return found[inode]
    content = _content(file)
    _check_record(file, content)
    if status.st_nlink > 1 and file.name.startswith("part-"):
        found[inode] = content
    return content


def _content(file: Path) -> str:
    if file.suffix == ".h5":
        return _table_content(file)
    if file.suffix == ".json":
        return _json_content(file)
    return _sha256(file)


def _table_content(file: Path) -> str:
    with Table(file) as table:
        for column in table.columns:
            table.verify(column)
        for name in table.whole:
            table.read_whole(name)
        table.meta  # noqa: B018  reading checks it
        if table.kind != "features":
            return table_hash(table)
    with TagFeatures(file.parent) as features:
        return features_hash(features)


def _json_content(file: Path) -> str:
    try:
        value = strict.read(file)
        content = identity_hash(value)
    except (ValueError, OSError) as error:
        raise RunError(f"{file} is damaged: {error}. Make it again with eval, or export.") from error
    if file.name == "identity.json" and _folder_hash(file.parent) not in ("", content[:8]):
        raise RunError(f"{file} is damaged: it is not the identity that its folder is named after. Export again.")
    return content


def _check_record(file: Path, content: str) -> None:
    """Compare a file of a tag's folder with the record beside it.

    Raises:
        RunError: they do not fit.
    """
    record = _record(file.parent)
    if record is None:
        return
    if file.name == RECORD:
        absent = [name for name in _files_of(record) if not (file.parent / name).is_file()]
        if absent:
            raise RunError(f"{file} speaks of {absent[0]}, which is missing. Make it again with eval, or export.")
        fits = record.get(SEAL) == seal_of(record)
    elif file.name == "conf.yaml":
        fits = _conf(file) == canonical(record.get("conf"))
    else:
        fits = _as_recorded(file, content, _files_of(record).get(file.name))
    if not fits:
        raise RunError(
            f"{file} is not what record.json says: one of them is damaged, or an eval did not finish. Make it again "
            "with eval (--overwrite_eval), or export (--overwrite)."
        )


def _record(folder: Path) -> dict[str, Any] | None:
    try:
        record = strict.read(folder / RECORD)
    except (ValueError, OSError):  # reported under its own name
        return None
    return record if isinstance(record, dict) else None


def _files_of(record: dict[str, Any]) -> dict[str, Any]:
    """Facts by name of a file beside the record; none where they are no such facts: then its seal is all there is to check."""
    files = record.get("files")
    if not isinstance(files, dict) or not all(isinstance(f, dict) and is_below(n) for n, f in files.items()):
        return {}
    return files


def _conf(file: Path) -> Any:
    from benchkit.conf.layers import read_native

    try:
        return canonical(read_native(file))
    except BenchkitError as error:
        raise RunError(f"{file} is damaged: {reason(error)}. record.json holds the same settings.") from error


def _as_recorded(file: Path, content: str, facts: dict[str, Any] | None) -> bool:
    if facts is None or file.name == "features.h5":  # its row checksums say enough; its content hash leaves out meta
        return True
    if file.suffix == ".h5":
        return facts.get("content") == content
    return facts.get("sha256") == (_sha256(file) if file.suffix == ".json" else content)


def _folder_hash(folder: Path) -> str:
    match = re.search(r"-([0-9a-f]{8})$", folder.resolve().name)
    return match[1] if match else ""


def _sha256(file: Path) -> str:
    try:
        return file_sha256(file)
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror or error}.") from error
