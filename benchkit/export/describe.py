"""What the record of a finished export says: data, features, model, files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import benchkit
from benchkit.export.job import Job
from benchkit.export.split import Split
from benchkit.provenance.identity import identity_hash
from benchkit.provenance.record import SCHEMA, describe_file
from benchkit.store.bank import Bank
from benchkit.store.content import file_hash


def describe(
    job: Job,
    build: Path,
    bank: Bank,
    keys: Sequence[str],
    targets: Mapping[str, str],
    skipped: Mapping[str, str],
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """The record of a tag whose files lie in `build`, before head and timings are added.

    Args:
        job: the tag.
        build: holds every other file.
        bank: the features came from.
        keys: feature keys used.
        targets: content hashes by name: targets, train_targets.
        skipped: items left out, and why.
        facts: what is known of the backbone.
    """
    protocol = job.protocol(targets["targets"])
    protocol["skipped"] = sorted(skipped)
    files = {
        p.relative_to(build).as_posix(): describe_file(p, _content(p)) for p in sorted(build.rglob("*")) if p.is_file()
    }
    files.pop("conf.yaml")  # eval rewrites its eval section
    return {
        "schema": SCHEMA,
        "benchkit": benchkit.__version__,
        "benchmark": job.conf.benchmark,
        "family": job.conf.family,
        "family_version": job.family.version,
        "level": job.family.level,
        "tag": job.tag,
        "command": job.command,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "conf": job.conf.plain(),
        "about": facts["about"],
        "protocol": protocol,
        "fingerprint": identity_hash(protocol),
        "data": _data(job, targets, skipped),
        "backbone": {**facts["backbone"], "identity": bank.identity, "identity_hash": bank.identity_hash},
        "features": _about_features(job, bank, keys),
        "inputs": job.inputs,
        "files": files,
        "scores": None,
    }


def _content(path: Path) -> str | None:
    return file_hash(path) if path.suffix == ".h5" else None


def _data(job: Job, targets: Mapping[str, str], skipped: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": job.conf.data.name,
        "generated": job.dataset.generated,
        "dataset_id": job.test.id,
        "train_id": job.train.id if job.train else None,
        **targets,
        "truth": {key: value for key, value in job.dataset.meta().items() if not key.startswith("class")},
        "split": job.test.name,
        "n_items": _left(job.test, skipped),
        "train_split": job.train.name if job.train else None,
        "n_train": _left(job.train, skipped) if job.train else 0,
        "skipped": dict(sorted(skipped.items())),
        "duplicates": job.duplicates,
        "untrained_classes": job.untrained,
        "trained_on_evaluated": job.head.trains and job.train is job.test,
        "overlaps": job.conf.overlaps,
    }


def _about_features(job: Job, bank: Bank, keys: Sequence[str]) -> dict[str, Any]:
    platforms = {identity_hash(p): p for p in bank.platforms.values()}
    requested = job.conf.plain()["model"]["features"]
    return {
        "requested": requested,
        "keys": list(keys),
        "platforms": [platforms[k] for k in sorted(platforms)],
        "mixed_platforms": len(platforms) > 1,
        "duplicate_rows": bank.duplicates,
    }


def _left(split: Split, skipped: Mapping[str, str]) -> int:
    return sum(item not in skipped for item in split.items)
