"""Where things lie below the outputs folder: one place that knows the layout."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable
from pathlib import Path

from benchkit.errors import UsageError

_TAG = re.compile(r"[^\s/\\:*?\"<>|\x00-\x1f][^/\\:*?\"<>|\x00-\x1f]*")


class Outputs:
    """The outputs folder: `--outputs DIR`, else $BENCHKIT_OUTPUTS, else ./outputs."""

    def __init__(self, root: str | Path | None = None) -> None:
        self.root = Path(root or os.environ.get("BENCHKIT_OUTPUTS") or "outputs")

    def bank(self, backbone: str, identity_hash: str) -> Path:
        """The bank of one backbone identity."""
        return self.root / "features" / f"{backbone}-{identity_hash[:8]}"

    def targets(self, content_hash: str) -> Path:
        """Ground truth of one split, named by its content."""
        return self.root / "targets" / f"{content_hash[:8]}.h5"

    def manifest(self, key: str) -> Path:
        """What is remembered of one data folder's files."""
        return self.root / "manifests" / f"{key[:16]}.h5"

    def tag(self, benchmark: str, tag: str) -> Path:
        """The folder of one experiment."""
        return self.root / "results" / benchmark / check_tag(tag)

    def lock(self, benchmark: str, tag: str) -> Path:
        """The lock of one experiment: outside its folder, so that the folder can be copied alone."""
        return lock_of(self.tag(benchmark, tag))

    def folders(self, benchmark: str) -> list[Path]:
        """Folders of the tags there are, in name order; somebody may have given them names that `tag` refuses."""
        folder = self.root / "results" / benchmark
        return sorted(p for p in folder.iterdir() if p.is_dir() and p.name[0] != ".") if folder.is_dir() else []

    def tags(self, benchmark: str) -> list[str]:
        """Tags with a folder, in name order."""
        return [folder.name for folder in self.folders(benchmark)]

    def benchmarks(self) -> list[str]:
        """Benchmarks with results, in name order."""
        folder = self.root / "results"
        return sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []


def fitting(tags: Iterable[str], wanted: str) -> list[str]:
    """Of some tags the one that is called so, else those that a name with * stands for, in their order."""
    known = list(tags)
    return (
        [wanted] if wanted in known else [each for each in known if "*" in wanted and fnmatch.fnmatchcase(each, wanted)]
    )


def lock_of(folder: Path) -> Path:
    """The lock of a tag's folder, wherever that lies."""
    return folder.parent / ".locks" / f"{folder.name}.lock"


def targets_near(folder: Path, content_hash: str) -> Path:
    """Ground truth of one split of a tag's folder: there if the folder still lies below its outputs folder."""
    above = folder.resolve().parents
    return Outputs(above[min(2, len(above) - 1)]).targets(content_hash)


def check_tag(tag: str) -> str:
    """A tag is one folder name.

    Raises:
        UsageError: it has a slash, begins with a dot, or cannot be a folder name everywhere.
    """
    if not _TAG.fullmatch(tag) or tag.startswith((".", "-")) or tag.endswith(" ") or len(tag.encode()) > 200:
        raise UsageError(
            f'{tag!r} cannot be a tag: a tag is one folder name without / \\ : * ? " < > |, not starting with a dot or '
            "dash, at most 200 bytes. Choose another with --tag."
        )
    return tag
