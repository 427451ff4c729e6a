"""Check whole files and hash their content: tables by their own checksums, all others by what stands beside them.

summaries.json and a head's weights are compared with the sha256 in the record beside them, the tables of an experiment with
their content there, a record with its own seal, a bank's identity and parts and a file of targets with its name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchkit.errors import BenchkitError, RunError, reason
from benchkit.provenance import strict
from benchkit.provenance.identity import canonical, identity_hash
from benchkit.provenance.record import NAME as RECORD
from benchkit.provenance.record import SEAL, file_sha256, seal_of
from benchkit.provenance.shape import is_below
from benchkit.store.content import features_hash, file_hash, table_hash
from benchkit.store.features import TagFeatures
from benchkit.store.reading import Each
from benchkit.store.table import Table

_OF_TAGS = ("predictions.h5", "targets.h5", "features.h5", "results.h5", "thumbs.h5")  # each called after what it holds
_HASH = re.compile(r"[0-9a-f]{8}")

Outcome = tuple[str | None, str]  # content hash, or None and what is wrong


def check_files(files: Sequence[Path], each: Each) -> list[Outcome]:
    """Check files of one folder; the record beside them is read once.

    Args:
        files: whole paths.
        each: called with numbers of bytes, in all the sizes of the files.
    """
    record = record_beside(files[0])
    return [_outcome(file, record, each) for file in files]


def check_names(files: Sequence[Path], contents: Sequence[str]) -> list[Outcome]:
    """As `check_files`, of other names of files that are known to be whole: compared with the record beside these names."""
    record = record_beside(files[0])
    found: list[Outcome] = []
    for file, content in zip(files, contents, strict=True):
        try:
            _check_record(file, content, record)
            found.append((content, ""))
        except BenchkitError as error:
            found.append((None, str(error)))
    return found


def _outcome(file: Path, record: dict[str, Any] | None, each: Each) -> Outcome:
    told = 0

    def tell(count: int) -> None:
        nonlocal told
        told += count
        each(count)

    try:
        return check_file(file, record, tell), ""
    except BenchkitError as error:
        return None, str(error)
    finally:
        each(max(0, _size(file) - told))


def check_file(file: Path, record: dict[str, Any] | None, each: Each = lambda count: None) -> str:
    """Content hash of a file that is whole and, where there is a record beside it, the one that it speaks of.

    Raises:
        BenchkitError: it is not, or cannot be read; the message names it.
    """
    content = content_of(file, each)
    _check_record(file, content, record)
    return content


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def content_of(file: Path, each: Each = lambda count: None) -> str:
    """Content hash of a file, all of whose own checksums hold.

    Raises:
        BenchkitError: one does not, or the file cannot be read; the message names it.
    """
    if file.suffix == ".h5":
        return _table_content(file, each)
    if file.suffix == ".json":
        return _json_content(file)
    return _sha256(file)


def _table_content(file: Path, each: Each) -> str:
    with Table(file, _kind(file)) as table:
        for column in table.columns:
            table.verify(column, each)
        for name in table.whole:
            table.read_whole(name)
        identity = str(table.meta.get("identity_hash"))
        if is_part(file) and not identity.startswith(folder_hash(file.parent)):
            raise RunError(
                f"{file} belongs to another model or preprocessing than its folder. Move it away and export again."
            )
        if table.kind != "features":
            content = table_hash(table)
            if file.parent.name == "targets" and _HASH.fullmatch(file.stem) and not content.startswith(file.stem):
                raise RunError(f"{file} is damaged: it is not the content that it is named after. Export again.")
            return content
    with TagFeatures(file.parent) as features:
        return features_hash(features)


def _kind(file: Path) -> str | None:
    """What a table of this name holds, where names tell."""
    if is_part(file):
        return "bank"
    if file.name in _OF_TAGS:
        return file.stem
    return {"targets": "targets", "manifests": "manifest"}.get(file.parent.name)


def is_part(file: Path) -> bool:
    """Whether a file is called like a part of a bank."""
    return file.name.startswith("part-") and file.suffix == ".h5"


def _json_content(file: Path) -> str:
    try:
        value = strict.read(file)
        content = identity_hash(value)
    except (ValueError, OSError) as error:
        raise RunError(f"{file} is damaged: {error}. Make it again with eval, or export.") from error
    if file.name == "identity.json" and folder_hash(file.parent) not in ("", content[:8]):
        raise RunError(f"{file} is damaged: it is not the identity that its folder is named after. Export again.")
    return content


def _check_record(file: Path, content: str, record: dict[str, Any] | None) -> None:
    """Compare a file of a tag's folder with the record beside it.

    Raises:
        RunError: they do not fit.
    """
    if record is None:
        return
    if file.name == RECORD:
        absent = [name for name in files_of(record) if not (file.parent / name).is_file()]
        if absent:
            raise RunError(f"{file} speaks of {absent[0]}, which is missing. Make it again with eval, or export.")
        fits = record.get(SEAL) == seal_of(record)
    elif file.name == "conf.yaml":
        fits = _conf(file) == canonical(record.get("conf"))
    else:
        name = f"features/{file.name}" if _is_of_tag(file) else file.name
        fits = _as_recorded(file, content, files_of(record).get(name))
    if not fits:
        raise RunError(
            f"{file} is not what record.json says: one of them is damaged, or an eval did not finish. Make it again "
            "with eval (--overwrite_eval), or export (--overwrite)."
        )


def record_beside(file: Path) -> dict[str, Any] | None:
    """What record.json in the folder of a file says, in whatever shape; None where there is none, or none that can be read.

    A part in `features/` of an experiment is spoken of by the record above.
    """
    try:
        record = strict.read((file.parent.parent if _is_of_tag(file) else file.parent) / RECORD)
    except (ValueError, OSError):  # reported under its own name
        return None
    return record if isinstance(record, dict) else None


def _is_of_tag(file: Path) -> bool:
    return is_part(file) and file.parent.name == "features"


def files_of(record: dict[str, Any]) -> dict[str, Any]:
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
    if facts is None:
        return True
    if file.suffix == ".h5":  # the content that doctor tells of features.h5 is that of the values, wherever they lie
        return facts.get("content") == (file_hash(file) if file.name == "features.h5" else content)
    return facts.get("sha256") == (_sha256(file) if file.suffix == ".json" else content)


def folder_hash(folder: Path) -> str:
    """The first letters of the identity that the folder of a bank is named after; "" for other folders."""
    match = re.search(r"-([0-9a-f]{8})$", folder.resolve().name)
    return match[1] if match else ""


def _sha256(file: Path) -> str:
    try:
        return file_sha256(file)
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror or error}.") from error
