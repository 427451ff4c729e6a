"""Verify every checksum below a path, and hash its content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import h5py

from benchkit.errors import BenchkitError, RunError
from benchkit.provenance.identity import identity_hash
from benchkit.store.content import entries_hash, table_entries, table_hash
from benchkit.store.features import TagFeatures
from benchkit.store.table import Table

OUTSIDE = ("thumbs.h5", "record.json", "conf.yaml", "identity.json")  # verified, but no part of a folder's content


def verify_tree(path: Path) -> dict[str, Any]:
    """Check all files below `path`.

    Returns:
        files: per relative name its content hash (or None) and what is wrong; content: hash over predictions, targets,
        results, summaries and feature values of each folder; damaged: how many files are.
    """
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in (".h5", ".json"))
    files = [f for f in files if not {".parts", ".locks"} & set(f.parts)]
    report: dict[str, Any] = {}
    for file in files:
        name = file.name if path.is_file() else file.relative_to(path).as_posix()
        try:
            report[name] = {"content": _content(file), "problem": ""}
        except BenchkitError as error:
            report[name] = {"content": None, "problem": str(error)}
    parts = {name: facts["content"] for name, facts in report.items() if _counts(name)}
    return {
        "files": report,
        "content": identity_hash(parts),
        "damaged": sum(facts["content"] is None for facts in report.values()),
    }


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


def _content(file: Path) -> str:
    if file.suffix == ".json":
        return _json_content(file)
    with Table(file) as table:
        for column in table.columns:
            if isinstance(table.node(column), h5py.Group):
                table.read(column)
            else:
                for _ in table.blocks(column):
                    pass
        for name in table.whole:
            table.read_whole(name)
        table.meta  # noqa: B018  reading checks it
        if table.kind == "features":
            return _feature_values(file.parent)
        return table_hash(table)


def _json_content(file: Path) -> str:
    try:
        return identity_hash(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, OSError) as error:
        raise RunError(f"{file} is damaged: {error}. Make it again with eval, or export.") from error


def _feature_values(folder: Path) -> str:
    """Hash of the feature values by view, whether they lie in features.h5 or in parts beside it."""
    with TagFeatures(folder) as features:
        entries = [e for e in table_entries(features.table) if e[0].startswith("features/") or e[0] == "image"]
        digest = hashlib.sha256(entries_hash(entries).encode())
        indexed = [k for k in features.meta["keys"] if f"index/{k}" in features.table]
        if indexed:
            digest = hashlib.sha256(entries_hash([*entries, *(features.indexed_entry(k) for k in indexed)]).encode())
    return digest.hexdigest()
