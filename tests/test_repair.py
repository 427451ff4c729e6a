"""`benchkit doctor PATH --repair`: each kind of damage to a real export is mended to the same bytes, or told and left."""

import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_experiments import exported

from benchkit.commands import doctor
from benchkit.provenance.record import read_record, sealed
from benchkit.store import seal
from benchkit.store.bank import Bank
from benchkit.store.files import boot, host, temporary, write_json
from benchkit.store.lock import exclusive
from benchkit.store.outputs import lock_of
from benchkit.store.repair import export_command
from benchkit.store.table import Table
from benchkit.store.verify import verify_tree

BENCHMARK, TAG = "semantic_segmentation", "first"
SETTINGS = ["model.head.epochs=2", "model.head.warmup_epochs=0"]  # a dense head: its features stay in parts


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made") / "outputs"
    exported(root, BENCHMARK, TAG, *SETTINGS)
    return root


@pytest.fixture
def outputs(made: Path, tmp_path: Path) -> Path:
    """A copy in which each name is a file of its own, as rsync leaves it."""
    return Path(shutil.copytree(made, tmp_path / "outputs"))


@pytest.fixture
def folder(outputs: Path) -> Path:
    return outputs / "results" / BENCHMARK / TAG


def repaired(path: Path, capsys: Any) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    status = doctor.main([str(path), "--repair", "--json"])
    return status, json.loads(capsys.readouterr().out)


def state(root: Path) -> dict[str, str]:
    """sha256 of every file by name, and where links lead; locks are left out."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file() and path.suffix != ".lock":
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def rewrite(path: Path, data: bytes) -> None:
    """In place, so that all names of the file are damaged."""
    path.chmod(0o644)
    with path.open("r+b") as handle:
        handle.write(data)
        handle.truncate(len(data))


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    rewrite(path, data)


def cut(path: Path) -> None:
    rewrite(path, path.read_bytes()[: path.stat().st_size // 2])


def half_copied(path: Path) -> None:
    size = path.stat().st_size
    rewrite(path, path.read_bytes()[: size // 2] + bytes(size - size // 2))


DAMAGES = [flipped, cut, half_copied]
TAG_PART = f"results/{BENCHMARK}/{TAG}/features/part-*.h5"
MADE_AGAIN = ("targets.h5", "thumbs.h5", "conf.yaml", "results.h5", "summaries.json")
IDENTITY = "features/*/identity.json"
OF_OTHERS = [TAG_PART, "features/*/part-*.h5", IDENTITY, *(f"results/{BENCHMARK}/{TAG}/{name}" for name in MADE_AGAIN)]


def test_the_export_has_every_file_that_is_damaged_here(made):
    assert all(list(made.glob(pattern)) for pattern in OF_OTHERS)
    assert verify_tree(made)["damaged"] == 0


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        *itertools.product(OF_OTHERS[:-2], DAMAGES),
        (OF_OTHERS[-2], flipped),
        (OF_OTHERS[-1], cut),
    ],  # scoring takes seconds
)
def test_what_others_hold_is_mended_to_the_same_bytes(outputs, capsys, pattern, damage):
    whole, content = state(outputs), verify_tree(outputs)["content"]
    (file,) = outputs.glob(pattern)
    damage(file)
    if not verify_tree(outputs)["damaged"]:
        pytest.skip("the flipped bit is in a comment or in white space")
    status, report = repaired(outputs, capsys)
    assert status == 0, report
    assert [step["file"] for step in report["repairs"] if step["done"]] == [str(file)]
    assert (report["damaged"], report["content"]) == (0, content)
    after = state(outputs)
    for name in [*after.keys() - whole.keys(), "results/semantic_segmentation/first/record.json"]:
        assert ".damaged" in name or name.endswith("record.json")  # scoring again writes how long it took
        whole[name] = after[name]
    if pattern == IDENTITY:  # parts tell it in another order of its keys
        whole[file.relative_to(outputs).as_posix()] = state(outputs)[file.relative_to(outputs).as_posix()]
    assert after == whole
    assert repaired(outputs, capsys) == (0, {**report, "repairs": []})


@pytest.mark.parametrize(
    "pattern", [*OF_OTHERS[:1], *(p for p in OF_OTHERS if p.startswith("results/") and "conf" not in p)]
)
def test_so_is_what_is_missing(outputs, capsys, pattern):
    whole = state(outputs)
    (file,) = outputs.glob(pattern)
    file.unlink()
    status, report = repaired(outputs, capsys)
    assert status == 0, report
    assert state(outputs).keys() == whole.keys()
    assert state(outputs)[file.relative_to(outputs).as_posix()] == whole[file.relative_to(outputs).as_posix()]


def test_damage_in_many_files_at_once(outputs, capsys):
    content = verify_tree(outputs)["content"]
    for pattern in (TAG_PART, *OF_OTHERS[2:]):
        for file in outputs.glob(pattern):
            cut(file)
    status, report = repaired(outputs, capsys)
    assert (status, report["content"]) == (0, content)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["predictions.h5", "features.h5", "head.safetensors", "record.json"])
def test_what_only_an_export_makes_is_left_and_told(outputs, folder, capsys, name, damage):
    damage(folder / name)
    before = state(outputs)
    status, report = repaired(outputs, capsys)
    assert status == 3
    assert state(outputs) == before
    told = {step["file"]: step["text"] for step in report["repairs"]}
    assert f"--benchmark {BENCHMARK} --tag {TAG} --overwrite" in told[str(folder / name)]
    assert not any(step["done"] for step in report["repairs"])


def test_with_no_flag_nothing_is_changed(outputs, folder, capsys):
    cut(folder / "thumbs.h5")
    before = state(outputs)
    assert doctor.main([str(outputs)]) == 3
    assert "--repair mends" in capsys.readouterr().err
    assert state(outputs) == before
    assert doctor.main(["--repair"]) == 2


def test_lines_for_people(outputs, folder, capsys):
    cut(folder / "thumbs.h5")
    cut(folder / "head.safetensors")
    assert doctor.main([str(outputs), "--repair"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("mended ") and "thumbs.h5: made again of the pictures in" in line for line in lines)
    assert any(line.startswith("NOT MENDED ") and "head.safetensors" in line for line in lines)
    assert lines[-1].endswith("1 damaged")


# Parts of a bank


def linked(outputs: Path) -> tuple[Path, Path]:
    """The part in the bank and in the tag, as two names of one file, as an export leaves them."""
    (part,), (of_tag,) = outputs.glob("features/*/part-*.h5"), outputs.glob(TAG_PART)
    of_tag.unlink()
    os.link(part, of_tag)
    return part, of_tag


def flip_row(part: Path, column: str, row: int) -> str:
    """Damage one row of a column; returns its name."""
    with Table(part, "bank") as table:
        name, value = table.names[row], np.asarray(table.item(column, row)).tobytes()
    data = bytearray(part.read_bytes())
    assert data.count(value) == 1
    data[data.index(value) + 3] ^= 1
    rewrite(part, data)
    return name


def rows_of(bank: Path) -> dict[tuple[str, str], bytes]:
    """All values of a bank by image and column."""
    found = {}
    for path in bank.glob("part-*.h5"):
        with Table(path, "bank") as table:
            for column in table.columns:
                values = table.items(column, range(len(table.names)))
                found.update({(n, column): np.asarray(v).tobytes() for n, v in zip(table.names, values, strict=True)})
    return found


def test_whole_rows_of_a_part_are_kept(outputs, capsys):
    part, of_tag = linked(outputs)
    rows = rows_of(part.parent)
    lost = {flip_row(part, "thumb", 3), flip_row(part, "features/patch@final", 7)}
    damaged = part.read_bytes()
    status, report = repaired(part.parent, capsys)
    assert status == 0
    count = len({name for name, _ in rows})
    assert f"{count - 2} of its {count} rows are whole" in report["repairs"][0]["text"]
    assert part.with_name(part.name + ".damaged").read_bytes() == damaged
    assert rows_of(part.parent) == {place: value for place, value in rows.items() if place[0] not in lost}
    with Bank(part.parent, json.loads((part.parent / "identity.json").read_text())) as bank:  # an export opens it
        assert bank.missing(sorted({name for name, _ in rows}), ["features/patch@final"]).keys() == lost
    status, report = repaired(outputs, capsys)  # the tag has the damaged rows and no copy of them
    assert status == 3
    assert {str(of_tag)} <= {step["file"] for step in report["repairs"]}
    assert all("--overwrite" in step["text"] for step in report["repairs"])


def test_a_part_that_does_not_tell_what_it_holds_is_moved_aside_whole(outputs, capsys):
    part, _ = linked(outputs)
    cut(part)
    data = part.read_bytes()
    status, report = repaired(part.parent, capsys)
    assert status == 0
    assert "rows are whole" not in report["repairs"][0]["text"]
    assert {p.name: p.read_bytes() for p in part.parent.glob("part-*")} == {part.name + ".damaged": data}


@pytest.mark.slow
def test_the_export_that_is_told_mends_the_rest_while_repairs_go_on(outputs, capsys):
    whole = verify_tree(outputs)["content"]
    part, _ = linked(outputs)
    flip_row(part, "features/patch@final", 2)
    named = [
        "--conf",
        "color_histogram",
        "--benchmark",
        BENCHMARK,
        "--tag",
        TAG,
        "--outputs",
        str(outputs),
        "--overwrite",
    ]
    command = [
        sys.executable,
        "-m",
        "benchkit.export",
        *named,
        *SETTINGS,
        "data.n_train=48",
        "data.n_test=24",
        "data.side=32",
    ]
    assert repaired(outputs, capsys)[0] == 3
    export = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    rounds = 0
    while export.poll() is None:
        repaired(outputs, capsys)
        rounds += 1
    assert (export.returncode, rounds > 0) == (0, True)
    subprocess.run(
        [sys.executable, "-m", "benchkit.eval", BENCHMARK, "--tag", TAG, "--outputs", str(outputs)], check=True
    )
    status, report = repaired(outputs, capsys)
    assert (status, report["content"]) == (0, whole)


# Whose files they are


def test_another_whole_file_under_the_name_is_kept(outputs, folder, capsys):
    content = verify_tree(outputs)["content"]
    other = next(
        path for path in (outputs / "targets").iterdir() if path.read_bytes() != (folder / "targets.h5").read_bytes()
    )
    (folder / "targets.h5").unlink()
    shutil.copyfile(other, folder / "targets.h5")
    status, report = repaired(outputs, capsys)
    assert (status, report["content"]) == (0, content)
    assert (folder / "targets.h5.damaged").read_bytes() == other.read_bytes()


def test_so_are_other_rows_under_the_name_of_a_part(outputs, capsys):
    (part,), (of_tag,) = outputs.glob("features/*/part-*.h5"), outputs.glob(TAG_PART)
    content, data = verify_tree(outputs)["content"], of_tag.read_bytes()
    identity = json.loads((part.parent / "identity.json").read_text())
    with Table(part, "bank") as table, Bank(outputs.parent / "other", identity) as bank:
        columns = {column: table.read(column) for column in table.columns}
        other = bank.add(table.names[::-1], columns, {})  # each photo has the features of another
    for name in (part, of_tag):
        name.unlink()
        os.link(other, name)
    assert (
        "is not what record.json says"
        in verify_tree(outputs)["files"][of_tag.relative_to(outputs).as_posix()]["problem"]
    )
    part.unlink()
    part.write_bytes(data)
    status, report = repaired(outputs, capsys)
    assert (status, report["content"]) == (0, content)
    assert of_tag.read_bytes() == data
    assert of_tag.with_name(of_tag.name + ".damaged").read_bytes() == other.read_bytes()


def later_version(path: Path) -> None:
    told = seal.verify(path)
    rewrite(path, path.read_bytes()[: told["size"]])
    seal.append(path, told["kind"], 99, [])


@pytest.mark.parametrize("pattern", ["features/*/part-*.h5", TAG_PART, f"results/{BENCHMARK}/{TAG}/targets.h5"])
def test_what_a_later_version_wrote_is_left(outputs, capsys, pattern):
    (file,) = outputs.glob(pattern)
    later_version(file)
    before = state(outputs)
    status, report = repaired(outputs, capsys)
    assert status == 3
    assert state(outputs) == before
    assert any("Update benchkit" in step["text"] for step in report["repairs"])


def test_scores_that_would_be_others_are_left(outputs, folder, capsys):
    record = read_record(folder)
    next(iter(record["scores"].values()))["value"] = 0.5
    write_json(folder / "record.json", sealed({key: value for key, value in record.items() if key != "seal"}))
    cut(folder / "results.h5")
    before = state(outputs)
    status, report = repaired(outputs, capsys)
    assert status == 3
    assert state(outputs) == before
    assert "other scores than record.json holds" in report["repairs"][0]["text"]


def test_an_eval_that_was_killed_is_finished(outputs, folder, capsys):
    content = verify_tree(outputs)["content"]
    for name in ("results.h5", "summaries.json"):
        (folder / name).unlink()
    shutil.copyfile(folder / "thumbs.h5", folder / f"results.h5.tmp-{host()}-{boot()}-{dead()}-0badcafe")
    status, report = repaired(outputs, capsys)
    assert (status, report["content"]) == (0, content)


def dead() -> int:
    """The number of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_unfinished_files_go_with_their_process(outputs, folder, capsys):
    gone = folder / f"results.h5.tmp-{host()}-{boot()}-{dead()}-0badcafe"
    mine, elsewhere = temporary(folder / "results.h5"), folder / f"results.h5.tmp-other.1-{boot()}-77-0badcafe"
    link = folder / f"link.tmp-{host()}-{boot()}-{dead()}-0badcafe"
    for path in (gone, mine, elsewhere):
        path.write_text("half")
    link.symlink_to(mine)
    status, report = repaired(outputs, capsys)
    assert status == 0  # none of them is read by anybody
    assert [path.exists() for path in (gone, mine, elsewhere, link)] == [False, True, True, True]
    told = {step["file"]: (step["done"], step["text"]) for step in report["repairs"]}
    assert told.keys() == {str(gone), str(elsewhere)}
    assert (told[str(gone)][0], told[str(elsewhere)][0]) == (True, False)
    assert "benchkit cache prune --older" in told[str(elsewhere)][1]


def left_work(folder: Path, age: float, **change: Any) -> Path:
    """`.parts` of an export of this tag, written so many seconds before it was finished."""
    record = read_record(folder)
    created = time.mktime(time.strptime(record["created"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
    (folder / ".parts" / "pairs").mkdir(parents=True)
    (folder / ".parts" / "plan.json").write_text(
        json.dumps({"conf": record["conf"], "inputs": record["inputs"], **change})
    )
    (folder / ".parts" / "pairs" / "part-0.h5").write_text("work")
    for path in (folder / ".parts").rglob("*"):
        os.utime(path, (created - age,) * 2)
    return folder / ".parts"


@pytest.mark.parametrize(
    ("age", "change", "goes"),
    [(60, {}, True), (-60, {}, False), (60, {"inputs": {"dataset_id": "other"}}, False), (60, {"conf": 3}, False)],
)
def test_unfinished_work_goes_only_where_it_was_finished(outputs, folder, capsys, age, change, goes):
    parts = left_work(folder, age, **change)
    status, report = repaired(outputs, capsys)
    assert status == 0
    assert parts.exists() != goes
    assert [step["file"] for step in report["repairs"]] == ([str(parts)] if goes else [])


# Others at the same time, and strangers


def test_it_waits_for_who_holds_the_tag_and_looks_again(outputs, folder, capsys):
    whole = (folder / "thumbs.h5").read_bytes()
    flipped(folder / "thumbs.h5")
    with exclusive(lock_of(folder)):
        command = [sys.executable, "-m", "benchkit", "doctor", str(outputs), "--repair", "--json"]
        other = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert "waiting for another process" in other.stderr.readline()
        rewrite(folder / "thumbs.h5", whole)
    report = json.loads(other.communicate()[0])
    assert (other.returncode, report["damaged"], report["repairs"]) == (0, 0, [])


def test_links_are_not_followed(outputs, folder, tmp_path, capsys):
    outside = tmp_path / "outside"
    (folder / "features").rename(outside)
    (folder / "features").symlink_to(outside)
    shutil.copyfile(folder / "thumbs.h5", outside / "thumbs.h5")
    (folder / "thumbs.h5").unlink()
    (folder / "thumbs.h5").symlink_to(outside / "thumbs.h5")
    for path in (outside / "thumbs.h5", *outside.glob("part-*.h5")):
        cut(path)
    before, beyond = state(outputs), state(outside)
    status, report = repaired(outputs, capsys)
    assert status == 3
    assert (state(outputs), state(outside)) == (before, beyond)
    told = {Path(step["file"]).name: step["text"] for step in report["repairs"]}
    assert "is a link" in told["thumbs.h5"]
    assert "--overwrite" in told["features.h5"]  # whose part is damaged
    (folder / "features").unlink()
    (folder / "features").symlink_to(tmp_path)  # where the part is not
    assert repaired(outputs, capsys)[0] == 3
    assert state(outside) == beyond
    assert not list(tmp_path.glob("part-*"))


@pytest.mark.parametrize("what", [".locks", "lock"])
def test_nor_is_a_lock_that_is_one(outputs, folder, tmp_path, capsys, what):
    lock = lock_of(folder)
    place = lock if what == "lock" else lock.parent
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    place.symlink_to(tmp_path / "elsewhere")
    cut(folder / "thumbs.h5")
    before = state(outputs)
    assert repaired(outputs, capsys)[0] == 3
    assert state(outputs) == before
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("benchkit export --conf a --benchmark b", "benchkit export --conf a --benchmark b --overwrite"),
        ("python -m benchkit.export --conf 'a b' --overwrite", "python -m benchkit.export --conf 'a b' --overwrite"),
        ("benchkit export --conf a; rm -r x", None),
        ("benchkit export $(x)", None),
        ("benchkit export --conf a --trust", None),
        ("rm -r x", None),
        ("benchkit export 'a", None),
        ("", None),
        (None, None),
    ],
)
def test_the_command_of_a_stranger_is_shown_only_where_it_is_ours(command, shown):
    record = {"command": command, "benchmark": "b'c", "tag": "t u"}
    assert export_command(record) == shown or export_command(record) == (
        "python -m benchkit.export --conf NAME --benchmark 'b'\"'\"'c' --tag 't u' --overwrite"
    )


def test_names_drive_no_terminal(outputs, capsys):
    odd = outputs / "targets" / "a\x1b[2Jb.h5"
    odd.write_text("nothing")
    assert doctor.main([str(outputs), "--repair"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "a\\x1b[2Jb.h5: moved aside to" in printed


# Killed half-way

CALLS = ("replace", "rename", "link", "unlink")  # of the module os: what changes names


def killed_at(call: int, work: Callable[[], object]) -> bool:
    """Run in a child that is killed just before its n-th change of a name; whether it came so far."""
    child = os.fork()
    if child == 0:
        left = [call]

        def before(name: str) -> Callable[..., Any]:
            own = getattr(os, name)

            def called(*args: Any, **more: Any) -> Any:
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                return own(*args, **more)

            return called

        for name in CALLS:
            setattr(os, name, before(name))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        work()
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_killed_at_any_change_of_a_name_it_goes_on(made, tmp_path, capsys):
    whole, calls = verify_tree(made)["content"], 0
    killed = True
    while killed:
        calls += 1
        outputs = Path(shutil.copytree(made, tmp_path / f"killed{calls}"))
        for pattern in (TAG_PART, IDENTITY, *OF_OTHERS[3:6]):
            for file in outputs.glob(pattern):
                cut(file)
        killed = killed_at(calls, lambda root=outputs: doctor.main([str(root), "--repair"]))
        status, report = repaired(outputs, capsys)
        assert (status, report["content"]) == (0, whole), calls
        shutil.rmtree(outputs)
    assert calls > 8


def test_killed_while_rows_are_kept_it_keeps_them_once(made, tmp_path, capsys):
    calls, killed = 0, True
    while killed:
        calls += 1
        bank = Path(shutil.copytree(made / "features", tmp_path / f"killed{calls}" / "features"))
        (part,) = bank.glob("*/part-*.h5")
        with Table(part, "bank") as table:
            rows = len(table.names)
        flip_row(part, "thumb", 1)
        killed = killed_at(calls, lambda root=bank: doctor.main([str(root), "--repair"]))
        assert repaired(bank, capsys)[0] == 0
        (left,) = bank.glob("*/part-*.h5")
        with Table(left, "bank") as table:
            assert len(table.names) == rows - 1
    assert calls > 2
