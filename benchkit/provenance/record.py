"""record.json: everything that says how an experiment's numbers came about. Numbered schema; written last.

Schema 1, top-level keys:
    schema, benchkit        version of this layout, version of the package
    benchmark, family, family_version, level, tag, command, created (UTC)
    conf                    merged data, model and eval settings
    about                   title, source, licence, pretrained_on of the model
    protocol, fingerprint   what must agree for scores to be ranked together, and its sha256
    data                    dataset_id, train_id, counts, skipped items, duplicates, generated or not, targets' content hash
    backbone                identity, identity_hash, parameters, weights
    features                requested and used keys, platforms of the parts, duplicates seen
    head                    name, fit log, threads
    inputs                  what a rerun compares: checkpoint file, data identity
    timings                 seconds by stage, images per second
    files                   sha256, bytes and content hash of every file the record speaks of
    seal                    sha256 of all the rest
    scores                  per metric: value, interval, floor, direction, unit, undefined items (null before eval)
    flagged                 of `doctor --data`, where it was run: groups of copies, evaluated items that are copies and why,
                            thresholds, what was not checked, and the scores without those items
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from benchkit.errors import RunError, UsageError, reason
from benchkit.provenance import shape, strict
from benchkit.provenance.identity import identity_hash

SCHEMA = 1
NAME = "record.json"
SEAL = "seal"


def read_record(folder: Path) -> dict[str, Any] | None:
    """The record of a tag's folder, or None where there is none.

    Raises:
        RunError: the file is no record, or not as it was written.
        UsageError: a later schema.
    """
    path = folder / NAME
    if not path.exists():
        return None
    try:
        record = strict.read(path)
        schema = int(record["schema"])
    except (ValueError, KeyError, TypeError, OSError, OverflowError) as error:
        raise RunError(
            f"{path} is damaged ({reason(error)}). Delete it and export again; the bank is reused."
        ) from error
    if schema > SCHEMA:
        raise UsageError(f"{path} has schema {schema}; this benchkit reads up to {SCHEMA}. Update benchkit.")
    if record.get(SEAL) != seal_of(record):
        raise RunError(
            f"{path} is damaged or was edited: its seal does not fit. Delete it and export again; the bank is reused."
        )
    try:
        shape.check(record)
    except ValueError as error:
        raise RunError(f"{path} is no record as benchkit writes it: {reason(error)}. Export again.") from error
    return dict(record)


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with the sha256 of everything else in it, so that a changed digit is seen when it is read."""
    return {**record, SEAL: seal_of(record)}


def seal_of(record: Mapping[str, Any]) -> str:
    """What the seal of a record has to be."""
    return identity_hash({key: value for key, value in record.items() if key != SEAL})


def file_sha256(path: Path) -> str:
    """sha256 of a file's bytes."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def describe_file(path: Path, content: str | None = None) -> dict[str, Any]:
    """sha256 and bytes of a file, and its content hash where it has one."""
    facts: dict[str, Any] = {"sha256": file_sha256(path), "bytes": path.stat().st_size}
    return {**facts, "content": content} if content else facts


def append_record(path: Path, record: Mapping[str, Any]) -> None:
    """Append one line to a .jsonl file, whole or not at all; several processes may do so at once.

    Raises:
        RunError: it cannot be written.
    """
    line = json.dumps(record, sort_keys=True, allow_nan=False, ensure_ascii=False).encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b", buffering=0) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            _append(handle, line)
    except OSError as error:
        raise RunError(
            f"cannot append to {path}: {error.strerror or error}. The record is in the tag's folder; mend the cause and "
            "run it again."
        ) from error


def _append(handle: FileIO, line: bytes) -> None:
    end = handle.seek(0, os.SEEK_END)
    torn = end > 0 and os.pread(handle.fileno(), 1, end - 1) != b"\n"  # by a process that was killed
    rest = b"\n" * torn + line
    try:
        while rest:
            rest = rest[handle.write(rest) :]
    except OSError:
        handle.truncate(end)
        raise


def unaltered(path: Path, record: Mapping[str, Any]) -> bool:
    """Whether a file is byte for byte the one that the record speaks of; reads all of it."""
    facts = record["files"].get(path.name)
    return facts is not None and path.is_file() and file_sha256(path) == facts["sha256"]


def matches(folder: Path, record: dict[str, Any], names: tuple[str, ...] = ()) -> str | None:
    """The first file that is missing or has another size than the record says; None when all fit.

    Sizes only: bytes are verified where they are read, and by `benchkit doctor`.
    """
    for name, facts in record["files"].items():
        if names and name not in names:
            continue
        path = folder / name
        if not path.exists() or path.stat().st_size != facts["bytes"]:
            return name
    return None
