"""Files from strangers: they run no code, read and write nothing outside their place, and a small one takes no large memory.

Minimal inputs that fuzzing found (`scripts/fuzz`) are here too, each in a test of its own.
"""

import io
import json
import os
import pickle
import resource
import struct
import subprocess
import sys
import textwrap
import zipfile
import zlib
from collections import OrderedDict
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse
import simplejpeg

import benchkit
from benchkit import trust
from benchkit.commands import _tables
from benchkit.commands import export as export_command
from benchkit.commands._shared import say
from benchkit.conf.build import build
from benchkit.conf.layers import MAX_NODES, read_native, read_yaml
from benchkit.datasets._mat_elements import refuse_unsound
from benchkit.errors import RunError, UsageError
from benchkit.images import MAX_PIXELS, MAX_SCANS, Unreadable, decode_exact, decode_fast, inspect
from benchkit.provenance import shape, strict
from benchkit.provenance.record import read_record, sealed
from benchkit.registry import find
from benchkit.store import foreign, seal
from benchkit.store.files import write_json
from benchkit.store.table import Table, write_table
from benchkit.store.verify import verify_tree

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts" / "fuzz_parts"))

from readers import ENTRY, READERS, RECORD, put, sealed_again

PREPROCESS = {
    "size": 32, "resize": "crop", "short": 32, "interpolation": "bilinear", "multiple": 1, "mean": [0] * 3, "std": [1] * 3,
    "decoder": "fast",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_is_trusted(monkeypatch):
    monkeypatch.delenv("BENCHKIT_TRUST", raising=False)
    trust.begin(False)


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A working directory, beside a folder `elsewhere` that holds a module `stranger` on the path, which leaves a mark."""
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
    mark = tmp_path / "mark"
    code = f"open({str(mark)!r}, 'w')\nfrom benchkit.eval.classification import Classification as Family, Settings\n"
    code += "build = Family\n"
    put(tmp_path / "elsewhere", "stranger.py", code)
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    return tmp_path


def ran(place: Path) -> bool:
    """Whether the stranger's code was imported."""
    return (place / "mark").exists()


def small(call: str, more: str = "", megabytes: int = 600) -> str:
    """Runs Python that may take so much more memory than benchkit's own modules; returns what it printed.

    Memory is bounded by the kernel, so that a file that asks for more fails here and not on the whole machine.
    """
    code = f"""
        import sys, resource, numpy, h5py, benchkit.store.table, benchkit.images, benchkit.datasets._pair_depth
        from pathlib import Path
        from benchkit.errors import BenchkitError
        {more}
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + ({megabytes} << 20),) * 2)
        try:
            print("read", {call})
        except BenchkitError as error:
            print(type(error).__name__, error)
        print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


class TestTrust:
    def conf(self, folder: Path, text: str = "model: {backbone: {name: stranger.Net}}\n") -> Path:
        return put(folder, "their.yaml", text)

    def test_a_conf_from_elsewhere_imports_nothing(self, place):
        with pytest.raises(UsageError, match=r"their.yaml:1.*stranger\.Net.*--trust") as told:
            build(self.conf(place / "elsewhere"), "classification")
        assert "BENCHKIT_TRUST=1" in str(told.value)
        assert not ran(place)

    @pytest.mark.parametrize(
        "text",
        [
            'model: {backbone: {name: module, path: "stranger.Net"}}\n',
            "model: {head: {name: stranger.Head}}\n",
            "benchmarks: {relative_pose: {eval: {estimator: [poselib, stranger.E]}}}\n",
            "benchmarks: {relative_pose: {eval: {estimator: 'poselib,stranger.E'}}}\n",
            "benchmarks: {classification: {data: {name: stranger.Data}}}\n",
            "benchmarks: {stranger.Family: {eval: {ece_bins: 3}}}\n",
            "benchmarks: {classification: {model: {backbone: {name: stranger.Net}}}}\n",
        ],
    )
    def test_wherever_it_names_code(self, place, text):
        conf = self.conf(place / "elsewhere", text)
        with pytest.raises(UsageError, match="it would import"):
            build(conf, "classification")
        assert not ran(place)

    @pytest.mark.parametrize("code", ["repo: their-dinov2", f"commit: {'0' * 40}"])
    def test_or_says_whose_code_runs(self, place, code):
        """DINOv2 runs hubconf.py of a folder, or of a commit on GitHub, where a fork's are found under the same address."""
        conf = self.conf(place / "elsewhere", f"model: {{backbone: {{name: dinov2, {code}}}}}\n")
        with pytest.raises(UsageError, match=r"which code runs.*--trust"):
            build(conf, "classification")
        build(conf.rename(place / "here" / "mine.yaml"), "classification")

    def test_timm_loads_no_weights_by_itself(self):
        from benchkit.backbones import timm

        for name in ("checkpoint_path", "pretrained_cfg_overlay"):
            settings = timm.Settings(arch="resnet18.a1_in1k", extra_kwargs={name: "theirs.pth"})
            with pytest.raises(UsageError, match=r"extra_kwargs\..*checkpoint=FILE"):
                timm.build(settings, random=True)

    def test_so_does_the_yaml_of_a_benchmark(self, place):
        path = self.conf(place / "elsewhere", "family: stranger.Family\n")
        with pytest.raises(UsageError, match=r"family .*their.yaml:1"):
            build("color_histogram", str(path))
        assert not ran(place)

    def test_also_where_the_module_is_the_users_own(self, place):
        put(place / "here", "mine.py", "open('mark', 'w')\n")
        with pytest.raises(UsageError, match=r"mine\.Net"):
            build(self.conf(place / "elsewhere", "model: {backbone: {name: mine.Net}}\n"), "classification")
        assert not (place / "here" / "mark").exists()

    @pytest.mark.parametrize("name", ["x" * 600, "x\0y", "x" * 600 + ".yaml"])
    def test_a_benchmark_that_no_file_can_be_called_after(self, place, name):
        conf = self.conf(place / "here", "benchmarks: {" + json.dumps(name) + ": {eval: {}}}\n")
        with pytest.raises(UsageError, match="no benchmark"):
            build(conf, "classification", ["model.backbone.name=color_histogram"])

    def test_a_link_below_the_working_directory_does_not_bring_it_nearer(self, place):
        link = place / "here" / "near.yaml"
        link.symlink_to(self.conf(place / "elsewhere"))
        with pytest.raises(UsageError, match="from outside the working directory"):
            build(link, "classification")

    def test_a_conf_below_the_working_directory_may(self, place):
        conf = self.conf(place / "here", "model: {backbone: {name: color_histogram}, head: {name: stranger.Family}}\n")
        build(conf, "classification")
        assert ran(place)

    @pytest.mark.parametrize("how", ["flag", "environment", "python"])
    def test_trust_is_given_in_three_ways(self, place, how, monkeypatch, capsys):
        conf = self.conf(
            place / "elsewhere", "model: {backbone: {name: color_histogram}, head: {name: stranger.Family}}\n"
        )
        arguments = ["data.n_train=4", "data.n_test=4"]
        if how == "environment":
            monkeypatch.setenv("BENCHKIT_TRUST", "1")
            build(conf, "classification", arguments)
        elif how == "flag":
            export_command.main(["--conf", str(conf), "--benchmark", "classification", "--trust", *arguments])
        else:
            with pytest.raises(AttributeError, match="gives"):  # a family is no head
                benchkit.run(str(conf), "classification", arguments=arguments, trust=True)
            with pytest.raises(UsageError, match="--trust"):
                benchkit.run(str(conf), "classification", arguments=arguments)
        assert ran(place)

    def test_what_was_typed_needs_no_flag(self, place):
        build("color_histogram", "classification", ["model.head.name=stranger.Family"])
        assert ran(place)

    def test_neither_does_a_benchmark_that_was_typed(self, place):
        assert build("color_histogram", "stranger.Family").family == "stranger.Family"

    def test_a_command_forgets_what_the_one_before_was_told(self, place):
        trust.typed("stranger.Family")
        trust.begin(False)
        with pytest.raises(UsageError, match="a file names it, not you"):
            find("eval", "stranger.Family")

    def test_a_record_imports_nothing_from_elsewhere(self, place):
        folder = place / "here" / "tag"
        folder.mkdir()
        write_json(folder / "record.json", sealed({**RECORD, "family": "stranger.Family"}))
        with pytest.raises(UsageError, match=r"stranger\.Family.*--trust"):
            READERS["record"].read(folder / "record.json")
        assert not ran(place)

    def test_nor_an_estimator_or_a_data_set(self, place):
        from benchkit.estimators._options import read_options
        from benchkit.experiments.frames import Frames

        with pytest.raises(UsageError, match=r"stranger\.E"):
            read_options(["stranger.E"], {})
        conf = {"data": {"name": "stranger.Data", "root": "/"}}
        try:
            frames = Frames({"conf": conf, "backbone": {"identity": {"preprocess": PREPROCESS}}})
        except TypeError:
            pytest.fail("the record of this test has other keys than Preprocess")
        assert frames.truth is None
        assert not ran(place)

    def test_modules_below_the_working_directory_are_the_users(self, place, monkeypatch):
        monkeypatch.syspath_prepend(str(place / "here"))
        put(place / "here" / "owned", "__init__.py", "")
        put(place / "here" / "owned", "part.py", "from benchkit.eval.classification import Classification as Family\n")
        assert find("eval", "owned.part.Family").name == "owned.part.Family"

    def test_but_results_that_were_copied_there_are_not(self, place, monkeypatch):
        """`outputs.results.classification.their.payload` is a module to Python: folders need no __init__.py."""
        monkeypatch.syspath_prepend(str(place / "here"))
        put(place / "here" / "outputs/results/classification/their", "payload.py", "open('mark', 'w')\n")
        with pytest.raises(UsageError, match="a file names it, not you"):
            find("eval", "outputs.results.classification.their.payload.Family")
        assert not (place / "here" / "mark").exists()

    @pytest.mark.parametrize(
        "path", ["subprocess.Popen", "os.system", "benchkit.__main__.main", "numpy.load", "__main__.x", "no.such"]
    )
    def test_what_is_installed_is_not_the_users(self, place, path):
        with pytest.raises(UsageError, match="a file names it, not you"):
            find("eval", path)

    def test_nothing_is_imported_to_find_out(self, place):
        put(place / "elsewhere" / "theirs", "__init__.py", f"open({str(place / 'mark')!r}, 'w')\n")
        with pytest.raises(UsageError):
            find("heads", "theirs.part.Head")
        assert not ran(place)


class TestTables:
    def hostile(self, folder: Path, change) -> Path:
        """A table that `change(file)` altered, under a seal that fits."""
        path = READERS["table"].make(folder)
        body = path.read_bytes()
        path.unlink()
        path.write_bytes(body[: body.rfind(b'{"checked"')])
        with h5py.File(path, "r+") as file:
            change(file)
        path.write_bytes(sealed_again(path.read_bytes()))
        return path

    def refused(self, path: Path) -> str:
        with pytest.raises(RunError) as told:
            READERS["table"].read(path)
        assert str(path) in str(told.value)
        return str(told.value)

    def put(self, file: h5py.File, name: str, **how) -> h5py.Dataset:
        """A column in place of `label`, with checksums of as many rows."""
        del file["label"], file["crc/label"]
        file["crc/label"] = np.zeros(3, "u4")
        return file.create_dataset(name, **how)

    def test_a_seal_that_fits_is_read(self, tmp_path):
        path = self.hostile(tmp_path, lambda file: None)
        assert READERS["table"].read(path)[0] == ["a/ä.png", "b", "c"]

    def test_no_external_link_is_followed(self, tmp_path):
        with h5py.File(tmp_path / "secret.h5", "w") as file:
            file["label"] = np.arange(3)

        def change(file):
            del file["label"]
            file["label"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "label")

        assert "link to elsewhere" in self.refused(self.hostile(tmp_path, change))

    def test_nor_a_group_of_checksums_that_is_one(self, tmp_path):
        def change(file):
            file.move("crc", "other")
            file["crc"] = h5py.SoftLink("/other")

        assert "link to elsewhere" in self.refused(self.hostile(tmp_path, change))

    def test_no_virtual_data_set_is_read(self, tmp_path):
        def change(file):
            layout = h5py.VirtualLayout((3,), "i8")
            layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "label", (3,))
            del file["label"]
            file.create_virtual_dataset("label", layout)

        assert "made of another file" in self.refused(self.hostile(tmp_path, change))

    def test_no_external_storage_is_read(self, tmp_path):
        (tmp_path / "secret").write_bytes(b"x" * 24)
        path = self.hostile(
            tmp_path,
            lambda file: self.put(file, "label", shape=(3,), dtype="i8", external=[(str(tmp_path / "secret"), 0, 24)]),
        )
        assert "made of another file" in self.refused(path)

    @pytest.mark.parametrize(
        "how",
        [
            {"shape": (3, 10**12), "dtype": "f4"},  # never written: no byte in the file
            {"shape": (3, 10**9), "dtype": "f4", "chunks": (1, 10**6)},
            {"data": np.zeros((3, 10**6), "u1"), "compression": "gzip"},
            {"shape": (3,), "dtype": h5py.string_dtype()},
            {"shape": (3,), "dtype": h5py.ref_dtype},
            {"shape": (3,), "dtype": h5py.vlen_dtype(np.int32)},
            {"shape": (3,), "dtype": [("a", "i4"), ("b", "f8")]},
            {"shape": (3,), "dtype": np.dtype("V8")},
        ],
        ids=lambda how: str(how.get("dtype", "gzip")) + str(how.get("shape", "")),
    )
    def test_what_a_column_claims_is_compared_with_the_file(self, tmp_path, how):
        path = self.hostile(tmp_path, lambda file: self.put(file, "label", **how))
        said = self.refused(path)
        assert "claims" in said or "laid out as nothing" in said

    def test_two_columns_of_the_same_bytes_are_claimed_twice(self, tmp_path):
        def change(file):
            big = self.put(file, "label", data=np.zeros((3, 100_000), "u1"))
            file["crc/label"][:] = zlib.crc32(bytes(100_000))
            for number in range(400):
                file[f"x{number}"], file[f"crc/x{number}"] = big, file["crc/label"]

        path = self.hostile(tmp_path, change)
        assert path.stat().st_size < 500_000
        assert "claim more bytes" in self.refused(path)

    @pytest.mark.parametrize("name", ["label", "crc/label", "names"])
    def test_a_type_in_place_of_a_column(self, tmp_path, name):
        def change(file):
            del file[name]
            file[name] = np.dtype("f8")

        assert "no data set" in self.refused(self.hostile(tmp_path, change))

    def test_every_item_has_a_row(self, tmp_path):
        path = self.hostile(tmp_path, lambda file: self.put(file, "label", data=np.arange(2)))
        assert "for every item" in self.refused(path)

    def test_deep_groups_are_not_walked(self, tmp_path):
        def change(file):
            group = file["crc"]
            for _ in range(
                1000
            ):  # the library's own visit takes seconds for a thousand, and never comes back from more
                group = group.create_group("g")

        assert "deep" in self.refused(self.hostile(tmp_path, change))

    def test_shapes_that_no_array_has(self, tmp_path):
        def change(file):
            file["map/shapes"][0] = (0, 2**62)
            file["map/offsets"][:] = [0, 0, 0, 4]
            file["map/values"][:] = 1

        assert "checksum" in self.refused(self.hostile(tmp_path, change))

    @pytest.mark.parametrize("change", [{"checked": [[0, 10**30]]}, {"checked": [[5, -5]]}, {"checked": 3},
                                        {"checked": [[8, 8], [0, 4]]},
                                        {"kind": ["x"]}, {"checked": [[True, 1.5]]}])  # fmt: skip
    def test_ranges_of_a_seal_lie_in_the_file(self, tmp_path, change):
        """A length of 10**30 bytes was summed, a megabyte at a time, for ever."""
        path = READERS["table"].make(tmp_path)
        body = path.read_bytes()
        told = {"checked": [], "crc32": zlib.crc32(body), "kind": "targets", "size": len(body), "version": 1, **change}
        text = json.dumps(told).encode()
        path.unlink()
        path.write_bytes(
            body + text + seal.MAGIC + len(text).to_bytes(8, "little") + zlib.crc32(text).to_bytes(4, "little")
        )
        self.refused(path)

    def test_a_seal_nested_without_end(self, tmp_path):
        text = b"[" * 100_000
        path = put(
            tmp_path,
            "t.h5",
            text + seal.MAGIC + len(text).to_bytes(8, "little") + zlib.crc32(text).to_bytes(4, "little"),
        )
        with pytest.raises(RunError, match="nested too deeply"):
            Table(path)

    def test_meta_is_keys_with_values(self, tmp_path):
        for number, meta in enumerate(([1], "x")):
            write_table(tmp_path / f"{number}.h5", "targets", ["a"], {}, meta=meta)  # type: ignore[arg-type]
            with Table(tmp_path / f"{number}.h5") as table, pytest.raises(RunError, match="not keys with values"):
                table.meta  # noqa: B018


class TestPredictionsOfOthers:
    def made(self, folder: Path, change) -> Path:
        path = READERS["predictions"].make(folder)
        with h5py.File(path, "r+") as file:
            change(file)
        return path

    def refused(self, path: Path) -> str:
        with pytest.raises(UsageError) as told:
            READERS["predictions"].read(path)
        return str(told.value)

    def test_claims_without_bytes(self, tmp_path):
        def change(file):
            for name in ("keypoints0", "matches0", "matching_scores0"):
                del file[f"a_b/{name}"]
                file["a_b"].create_dataset(
                    name, (10**12, 2)[: 2 - (name != "keypoints0")], "f4" if name != "matches0" else "i8"
                )

        assert "claims the shape" in self.refused(self.made(tmp_path, change))

    def test_what_hdf5_cannot_read_later(self, tmp_path):
        def change(file):
            del file["c_d/keypoints1"]
            file["c_d"].create_dataset("keypoints1", data=np.ones((4, 2), "f4"), compression="gzip")

        path = self.made(tmp_path, change)
        with h5py.File(path, "r") as file:
            place = file["c_d/keypoints1"].id.get_chunk_info(0).byte_offset
        data = bytearray(path.read_bytes())
        data[place : place + 8] = bytes(8)
        path.write_bytes(data)
        assert "a damaged one" in self.refused(path)

    def test_many_pairs_that_are_one(self, tmp_path):
        from benchkit.heads.solvers import imported

        def change(file):
            count = 500_000
            group = file.create_group("g")
            group["keypoints0"] = np.zeros((4, 2), "f4")
            del group["keypoints0"]
            for name, shape_ in (("keypoints0", (count, 2)), ("keypoints1", (4, 2)), ("matches0", (count,))):
                group.create_dataset(name, shape_, "i4", chunks=True, fillvalue=-1)
            for number in range(300):
                file[f"p{number}"] = group

        path = self.made(tmp_path, change)
        with pytest.raises(UsageError, match="far more than it can hold"):
            imported.find(str(path), {f"p{number}": [] for number in range(300)})
        assert path.stat().st_size < 200_000

    def test_links_to_other_files(self, tmp_path):
        def change(file):
            del file["a_b"]
            file["a_b"] = h5py.ExternalLink("other.h5", "/a_b")

        assert "lacks 1 of 2 items" in self.refused(self.made(tmp_path, change))

    def test_deep_groups(self, tmp_path):
        def change(file):
            group = file
            for _ in range(200):
                group = group.create_group("g")

        assert "deep" in self.refused(self.made(tmp_path, change))

    def test_numbers_that_numpy_has_not(self, tmp_path):
        """A float of 23 bits of exponent: h5py raises ValueError when its type is asked for."""

        def change(file):
            odd = h5py.h5t.IEEE_F32LE.copy()
            odd.set_fields(31, 8, 23, 0, 8)
            del file["a_b/keypoints0"]
            h5py.h5d.create(file["a_b"].id, b"keypoints0", odd, h5py.h5s.create_simple((3, 2)))

        assert "cannot be read" in self.refused(self.made(tmp_path, change))


class TestTruth:
    def test_depth_that_no_byte_was_written_of(self, tmp_path):
        with h5py.File(tmp_path / "depth.h5", "w") as file:
            file.create_dataset("depth", (12_000, 12_000), "f8", chunks=(1000, 1000))
        with pytest.raises(Unreadable, match="more than its 0 bytes can tell"):
            READERS["depth-h5"].read(tmp_path / "depth.h5")

    def test_depth_in_a_chunk_that_no_memory_holds(self, tmp_path):
        with h5py.File(tmp_path / "depth.h5", "w") as file:
            file.create_dataset("depth", (6, 5), "f8", chunks=(20_000, 20_000), maxshape=(None, None))
        with pytest.raises(Unreadable, match=r"claims the shape \(20000, 20000\)"):
            READERS["depth-h5"].read(tmp_path / "depth.h5")

    def test_depth_behind_a_link(self, tmp_path):
        with h5py.File(tmp_path / "depth.h5", "w") as file:
            file["depth"] = h5py.ExternalLink("/etc/passwd", "/x")
        with pytest.raises(Unreadable, match="link to elsewhere"):
            READERS["depth-h5"].read(tmp_path / "depth.h5")

    def test_an_array_with_objects_is_not_unpickled(self, tmp_path):
        class Evil:
            def __reduce__(self):
                return os.system, (f"touch {tmp_path / 'mark'}",)

        np.save(tmp_path / "depth.npy", np.array([[Evil()]], dtype=object), allow_pickle=True)
        with pytest.raises(Unreadable, match=r"no whole \.npy"):
            READERS["depth-npy"].read(tmp_path / "depth.npy")
        assert not (tmp_path / "mark").exists()

    @pytest.mark.slow
    def test_a_mat_file_that_inflates(self, tmp_path):
        """A megabyte of a deflated matrix of 1 GB."""
        deflate = zlib.compressobj(9)
        side = 11_500
        head = (
            struct.pack("<IIIIII", 6, 8, 6, 0, 5, 8)
            + struct.pack("<ii", side, side)
            + struct.pack("<HHI", 1, 4, 0x74706564)
        )
        head += struct.pack("<II", 9, side * side * 8)
        packed = deflate.compress(struct.pack("<II", 14, len(head) + side * side * 8) + head)
        packed += b"".join(deflate.compress(bytes(1 << 20)) for _ in range(side * side * 8 >> 20)) + deflate.flush()
        put(
            tmp_path,
            "depth.mat",
            b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(packed)) + packed,
        )
        said = small(
            f"benchkit.datasets._pair_depth.read_depth(Path({str(tmp_path / 'depth.mat')!r}), 1.0)", "import scipy.io"
        )
        assert "Unreadable" in said
        assert "inflate" in said or "claims more" in said

    @pytest.mark.parametrize("compressed", [False, True])
    def test_numbers_of_a_type_that_is_none(self, tmp_path, compressed):
        """SciPy looks the type up in a table without asking whether it has such a row, and crashes."""
        scipy.io.savemat(tmp_path / "depth.mat", {"depth": np.ones((6, 5))})
        data = (tmp_path / "depth.mat").read_bytes()
        place = data.index(struct.pack("<II", 9, 240))
        for kind in (0x55, 0xEA, 0, 8, 10, 11, 15, 19):
            wrong = data[128:place] + struct.pack("<I", kind) + data[place + 4 :]
            if compressed:
                packed = zlib.compress(wrong)
                wrong = struct.pack("<II", 15, len(packed)) + packed
            put(tmp_path, "depth.mat", data[:128] + wrong)
            with pytest.raises(Unreadable, match=f"of type {kind} "):
                READERS["depth-mat"].read(tmp_path / "depth.mat")

    def test_elements_of_a_mat_file_that_end_elsewhere(self, tmp_path):
        scipy.io.savemat(tmp_path / "depth.mat", {"depth": np.ones((6, 5))})
        data = (tmp_path / "depth.mat").read_bytes()
        put(tmp_path, "depth.mat", data.replace(struct.pack("<II", 9, 240), struct.pack("<II", 9, 4_000_000_000)))
        with pytest.raises(Unreadable, match="ends behind"):
            READERS["depth-mat"].read(tmp_path / "depth.mat")

    def test_cells_without_end(self, tmp_path):
        inner = b""
        for _ in range(5000):
            inner = struct.pack("<II", 14, len(inner)) + inner
        put(tmp_path, "depth.mat", b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + inner)
        with pytest.raises(Unreadable, match="deep"):
            READERS["depth-mat"].read(tmp_path / "depth.mat")

    def test_what_is_sound_is_read(self, tmp_path):
        """Numbers of all kinds, short and long names, text, cells and structures within each other, sparse and complex ones."""
        kinds = {
            f"v_{kind}": np.ones((2, 3), kind) for kind in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")
        }
        cells = np.empty((1, 2), object)
        cells[0] = [np.ones(3), {"a": {"b": np.zeros((2, 2)), "text": "abc"}}]
        whole = {
            **kinds,
            "cells": cells,
            "text": "ä",
            "one": 1.0,
            "sparse": scipy.sparse.eye(3),
            "complex": np.ones(2) * 1j,
        }
        for compression in (False, True):
            scipy.io.savemat(tmp_path / "x.mat", {**whole, "empty": np.zeros((0, 3))}, do_compression=compression)
            refuse_unsound((tmp_path / "x.mat").read_bytes())

    def test_a_member_that_is_no_array(self, tmp_path):
        path = READERS["npz"].make(tmp_path)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("name.npy", b"no array")
        with pytest.raises(UsageError, match="no array"):
            READERS["npz"].read(path)

    def test_names_in_a_mat_file_are_quoted_in_one_line(self, tmp_path):
        one = [struct.pack("<5i", 0, 2, 2, 0, len(n)) + n + bytes(32) for n in (b"a\n\n\x1b[2J\0", b"c\0")]
        put(tmp_path, "depth.mat", b"".join(one))
        with pytest.raises(Unreadable, match="2 variables") as told:
            READERS["depth-mat"].read(tmp_path / "depth.mat")
        assert str(told.value).isprintable()

    def test_a_header_of_several_lines_is_quoted_in_one(self, tmp_path):
        path = READERS["pairs"].make(tmp_path)
        path.write_bytes(b'"image0,image1,ne\na.png\n\n~g,s\x1b[2J"\n')
        with pytest.raises(UsageError) as told:
            READERS["pairs"].read(path)
        assert "\n\n" not in str(told.value)
        assert str(told.value).replace("\n", "").isprintable()

    def test_no_message_drives_the_terminal(self, capsys):
        say("there is no 'x\x1b[2J\u202e'\nin it")
        assert capsys.readouterr().err == "there is no 'x\\x1b[2J\\u202e' in it\n"

    def test_a_pipe_called_like_an_image(self, tmp_path):
        from benchkit.images import read_whole

        os.mkfifo(tmp_path / "a.png")
        with pytest.raises(Unreadable, match="pipe"):
            read_whole(tmp_path / "a.png")


def chunk(kind: bytes, data: bytes) -> bytes:
    """Of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def big_png(width: int, height: int, *more: bytes) -> bytes:
    """A PNG that claims a size and ends."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n" + head + b"".join(more) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


class TestImages:
    def test_a_size_that_no_photo_has_is_not_decoded(self):
        for read in (inspect, decode_fast, decode_exact):
            with pytest.raises(Unreadable, match="pixels"):
                read(big_png(60_000, 60_000))

    @pytest.mark.parametrize(
        "data",
        [
            b"GIF89a\xff\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;",
            b"BM" + struct.pack("<IIIIiiHHIIiiII", 58, 0, 54, 40, 60_000, 60_000, 1, 24, 0, 4, 0, 0, 0, 0) + bytes(4),
            b"P6 60000 60000 255\n" + bytes(100),
            b"II*\x00\x08\x00\x00\x00" + struct.pack("<H", 4)
            + b"".join(struct.pack("<HHII", tag, 4, 1, v) for tag, v in ((256, 60_000), (257, 60_000), (258, 8), (262, 1)))
            + bytes(4),
        ],
        ids=["gif", "bmp", "ppm", "tiff"],
    )  # fmt: skip
    def test_in_any_format(self, data):
        with pytest.raises(Unreadable):
            decode_fast(data)

    def test_a_small_file_is_no_large_image(self):
        """A GIF of 4 KB that claims 170 million pixels took 1.4 GB."""
        data = (
            b"GIF89a"
            + struct.pack("<HHBBB", 13_000, 13_000, 0, 0, 0)
            + b","
            + struct.pack("<HHHHB", 0, 0, 13_000, 13_000, 0)
        )
        for image in (data + b"\x02\x02D\x01\x00;", big_png(13_000, 13_000)):
            with pytest.raises(Unreadable, match="it would be blank"):
                decode_fast(image)

    def test_a_blank_image_is_one(self):
        from PIL import Image

        for mode, kind in (("1", "PNG"), ("RGB", "JPEG")):
            buffer = io.BytesIO()
            Image.new(mode, (6000, 5000)).save(buffer, kind)
            assert inspect(buffer.getvalue()) == (5000, 6000)

    def test_text_that_inflates_is_not_kept(self):
        bomb = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(50_000_000), 9))
        with pytest.raises(Unreadable):
            decode_exact(big_png(4, 4, bomb))

    def test_a_subsampling_that_has_no_name(self):
        """4 rows of luminance for one of colour (4:4:1): libjpeg reads it, simplejpeg's header does not."""
        colours = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
        data = bytearray(simplejpeg.encode_jpeg(colours, colorsubsampling="411"))
        sampling = data.index(b"\xff\xc0") + 11
        assert data[sampling] == 0x41
        data[sampling] = 0x14
        np.testing.assert_array_equal(decode_fast(bytes(data)), decode_exact(bytes(data)))
        assert inspect(bytes(data)) == (64, 64)

    def test_scans_without_end(self):
        from PIL import Image

        buffer = io.BytesIO()
        Image.new("RGB", (16, 16)).save(buffer, "JPEG", progressive=True)
        data = buffer.getvalue()
        start = data.index(b"\xff\xda")
        many = data[:start] + data[start:-2] * (MAX_SCANS + 1) + data[-2:]
        with pytest.raises(Unreadable, match="scans"):
            decode_fast(many)
        with pytest.raises(Unreadable, match="scans"):
            inspect(many)

    def test_the_bound_is_a_setting(self):
        code = "import benchkit.images as i; print(i.MAX_PIXELS)"
        env = {**os.environ, "BENCHKIT_MAX_PIXELS": "1000"}
        assert (
            subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
            == "1000\n"
        )
        assert MAX_PIXELS > 150_000_000, "cameras have so many"


class TestText:
    def test_aliases_that_multiply(self, tmp_path):
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 12)]
        path = put(tmp_path, "conf.yaml", "\n".join(lines))
        for read in (read_yaml, read_native):
            with pytest.raises(UsageError, match="too many or too deeply"):
                read(path)
        assert MAX_NODES < 9**6

    def test_doctor_does_not_follow_them_either(self, tmp_path):
        READERS["doctor"].make(tmp_path)
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 12)]
        (tmp_path / "conf.yaml").write_text("\n".join(lines))
        assert "too many" in verify_tree(tmp_path)["files"]["conf.yaml"]["problem"]

    def test_doctor_takes_a_conf_from_elsewhere_for_text(self, tmp_path):
        conf = {"data": {"name": "stranger.Data"}, "model": {}, "eval": {}}
        write_json(tmp_path / "record.json", sealed({**RECORD, "conf": conf, "files": {}}))
        put(tmp_path, "conf.yaml", json.dumps(conf))
        assert verify_tree(tmp_path)["damaged"] == 0
        with pytest.raises(UsageError, match="a file names it"):
            trust.refuse_foreign("stranger.Data")

    @pytest.mark.parametrize(
        "text", ["!!python/object/apply:os.system [true]", "!!binary aGk=", "${oc.env:HOME}", "a: 1\na: 2"]
    )
    def test_no_tag_resolver_or_second_key(self, tmp_path, text):
        path = put(tmp_path, "conf.yaml", text if text.startswith("a:") else f"model: {text}\n")
        with pytest.raises(UsageError, match=r"conf\.yaml:"):
            read_yaml(path)

    @pytest.mark.parametrize(
        "text",
        [
            "[" * 100_000,
            "[" * 70 + "]" * 70,
            '{"a":' * 5000,
            '{"a": 1, "a": 2}',
            "NaN",
            "1e999",
            "-Infinity",
            "9" * 5000,
            "\xff",
        ],
    )
    def test_json_is_finite_flat_and_unambiguous(self, tmp_path, text):
        path = put(tmp_path, "x.json", text.encode("latin-1"))
        with pytest.raises(ValueError, match=r".") as told:
            strict.read(path)
        assert not isinstance(told.value, RecursionError)
        path.rename(tmp_path / "record.json")
        with pytest.raises(RunError, match="is damaged"):
            read_record(tmp_path)

    @pytest.mark.parametrize(
        "change",
        [
            {"files": {"../../secret": {"sha256": "0", "bytes": 1}}},
            {"files": {"/etc/passwd": {"sha256": "0", "bytes": 1}}},
            {"tag": "t" * 2_000_000},
            {"scores": {}},
            {
                "scores": {
                    "top1": {"value": 10**400, "interval": None, "floor": None, "better": "higher", "undefined": 0}
                }
            },
            {"scores": {"top1": {"value": "1", "interval": None, "floor": None, "better": "higher", "undefined": 0}}},
            {"scores": [1]},
            {"head": {"name": "h", "log": {"loss": "x"}}},
            {"data": None},
            {"conf": {"data": {"name": "scenes"}, "model": {}, "eval": {}}},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_a_seal_does_not_make_a_record(self, tmp_path, change):
        write_json(tmp_path / "record.json", sealed({**RECORD, **change}))
        with pytest.raises(RunError, match="no record as benchkit writes it"):
            read_record(tmp_path)

    def test_settings_of_a_record_are_read_by_their_type(self, tmp_path):
        for change in ({"ece_bins": "many"}, {"no_such": 1}):
            conf = {**RECORD["conf"], "eval": change}
            write_json(tmp_path / "record.json", sealed({**RECORD, "conf": conf}))
            with pytest.raises(UsageError, match=next(iter(change))):
                READERS["record"].read(tmp_path / "record.json")

    def test_files_of_a_record_lie_below_it(self):
        for name in ("a.h5", "features/part-1.h5"):
            assert shape.is_below(name)
        for name in ("", ".", "..", "../a", "a/../b", "/a", "a//b", "a\\b", "C:x", "a\0"):
            assert not shape.is_below(name)

    @pytest.mark.parametrize(
        "change",
        [
            {"more": 1},
            {"inference_size": 10**30},
            {"inference_size": True},
            {"split": "s" * 1_000_000},
            {"extra": {"floor": {"mIoU": float("nan")}}},
            {"extra": {"floor": {"mIoU": "x" * 500_000}}},
            {"shared_metrics": {**ENTRY["shared_metrics"], "mIoU": 1e308}},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_a_submission_is_what_its_schema_says(self, tmp_path, change):
        put(tmp_path, "s.json", json.dumps({**ENTRY, **change}))
        with pytest.raises(UsageError) as told:
            READERS["submission"].read(tmp_path / "s.json")
        assert len(str(told.value)) < 1000

    def test_a_submission_of_megabytes_is_none(self, tmp_path):
        put(tmp_path, "s.json", json.dumps({**ENTRY, "extra": {**ENTRY["extra"], "note": "x" * 2_000_000}}))
        with pytest.raises(UsageError, match="more than"):
            READERS["submission"].read(tmp_path / "s.json")


class TestLists:
    @pytest.mark.parametrize("name", ["../a.png", "/etc/passwd", "x/../../a.png", "..", "a\x07.png"])
    def test_images_lie_below_the_root(self, tmp_path, name):
        for reader, text in (
            ("listed", f"image,label\n{name},cat\nb.png,dog\n"),
            ("frames", f"file,mask,split,wall_id\n{name},m.png,test,w\n"),
            ("triplets", f"id,ref_path,left_path,right_path,left_vote,right_vote\n1,{name},b.png,c.png,0,1\n"),
            ("cub", f"1 ../../{name.removeprefix('/')}\n2 002.b/y.jpg\n"),
        ):
            path = READERS[reader].make(tmp_path)
            path.write_bytes(text.encode())
            with pytest.raises(UsageError):
                READERS[reader].read(path)

    def test_lists_of_names_are_utf8(self, tmp_path):
        from benchkit.backbones._imagenet import names_of
        from benchkit.heads.zeroshot import _named

        path = put(tmp_path, "names.txt", b"caf\xe9\n")
        for read in (lambda: names_of([str(path)]), lambda: _named(str(path))):
            with pytest.raises(UsageError, match="not UTF-8"):
                read()

    @pytest.mark.parametrize(
        ("reader", "text"),
        [
            ("colmap-cameras", "1 PINHOLE 0\n"),  # nothing to unpack height from
            ("colmap-cameras", "1 PINHOLE\n"),
            ("colmap", f"1 1 0 0 0 0 0 0 1 a.png\n1 1 {'9' * 40}\n"),  # no int64
            ("raw-depth", "x"),
            ("pose", "1 0 0\n"),
            ("spair", '{"category": "a", "src_imname": "b", "trg_imname": "c", "src_kps": [[1]], "trg_kps": [[1]]}'),
            (
                "navi",
                '[{"camera": {"q": [1, 0, 0, 0], "t": [0, 0, 0], "focal_length": 1}, "filename": "a", "image_size": [1e300, 2]}]',
            ),
        ],
    )
    def test_numbers_that_are_missing_or_too_many(self, tmp_path, reader, text):
        path = READERS[reader].make(tmp_path)
        path.write_bytes(text.encode())
        with pytest.raises(UsageError):
            READERS[reader].read(path)

    def test_a_row_of_hugging_face_names_no_file_outside_its_folder(self, tmp_path):
        from benchkit.datasets._hf_rows import _file

        assert _file("a/b.png", tmp_path, 0) == tmp_path / "a/b.png"
        for path in ("/etc/passwd", "../x.png", "a/../../x.png"):
            with pytest.raises(UsageError, match="outside"):
                _file(path, tmp_path, 3)

    @pytest.mark.parametrize("name", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1"])
    def test_no_cell_of_csv_is_a_formula(self, name):
        text = _tables.render(["tag", "value"], [[name, "-0.25"]], "csv")
        assert f"'{name}" in text
        assert ",-0.25" in text

    def test_numbers_stay_numbers(self):
        assert _tables.render(["a", "b", "c"], [["-1e-05", "+3", "-inf"]], "csv").endswith("-1e-05,+3,-inf")


class TestWeights:
    def test_a_few_bytes_that_ask_for_memory(self, tmp_path):
        """torch.load(weights_only=True) calls bytearray with the number that the file says, and fills it."""

        class Bomb:
            def __reduce__(self):
                return bytearray, (1 << 40,)

        with zipfile.ZipFile(tmp_path / "w.pt", "w") as archive:
            archive.writestr("a/data.pkl", pickle.dumps({"a": Bomb()}, protocol=2))
            archive.writestr("a/version", "3")
        with pytest.raises(UsageError, match="bytearray"):
            READERS["pt"].read(tmp_path / "w.pt")
        put(tmp_path, "old.pt", pickle.dumps({"a": Bomb()}, protocol=2))
        with pytest.raises(UsageError):
            READERS["pt"].read(tmp_path / "old.pt")

    def test_records_that_inflate(self, tmp_path):
        good = READERS["pt"].make(tmp_path)
        with zipfile.ZipFile(good) as archive:
            records = {entry.filename: archive.read(entry) for entry in archive.infolist()}
        with zipfile.ZipFile(tmp_path / "b.pt", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in records.items():
                archive.writestr(name, data)
            archive.writestr("w/data/9", bytes(1 << 20))
        with pytest.raises(UsageError, match="compressed"):
            READERS["pt"].read(tmp_path / "b.pt")

    def test_tensors_that_are_one_number_seen_often(self, tmp_path):
        import torch

        torch.save({"a": torch.ones(1).expand(10**6, 10**6)}, tmp_path / "w.pt")
        with pytest.raises(UsageError, match="claims the shape"):
            READERS["pt"].read(tmp_path / "w.pt")

    @pytest.mark.parametrize("kind", ["meta", "sparse"])
    def test_tensors_without_numbers(self, tmp_path, kind):
        import torch

        tensor = (
            torch.empty(10**6, 10**6, device="meta")
            if kind == "meta"
            else torch.sparse_coo_tensor([[0]], [1.0], (10**12,))
        )
        torch.save({"a": tensor}, tmp_path / "w.pt")
        with pytest.raises(UsageError, match=r"no plain tensor|cannot be read"):
            READERS["pt"].read(tmp_path / "w.pt")

    def test_a_dictionary_that_holds_itself(self, tmp_path):
        """`model` within `model` within `model` was followed for ever."""
        import torch

        loop = OrderedDict(a=torch.ones(1))
        loop["model"] = loop
        torch.save(loop, tmp_path / "w.pt")
        state, notes = READERS["pt"].read(tmp_path / "w.pt")
        assert list(state) == ["a"]
        assert len(notes) < 20

    def test_a_header_longer_than_its_file(self, tmp_path):
        for head in (struct.pack("<Q", 1 << 60) + b"{}", struct.pack("<Q", 2) + b"{}" + bytes(8), b"\x02"):
            with pytest.raises(UsageError, match=r"cannot be read|no tensors"):
                READERS["safetensors"].read(put(tmp_path, "w.safetensors", head))
        told = json.dumps({"a": {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 4 * 10**12]}}).encode()
        with pytest.raises(UsageError, match="cannot be read"):
            READERS["safetensors"].read(put(tmp_path, "w.safetensors", struct.pack("<Q", len(told)) + told + bytes(64)))


class TestFrames:
    """What a record says of its data is used to look for images, so it decides what is read."""

    def frames(self, **data):
        from benchkit.experiments.frames import Frames

        return Frames({"conf": {"data": data}, "backbone": {"identity": {"preprocess": PREPROCESS}}})

    def test_a_number_of_generated_images_that_nobody_made(self):
        assert self.frames(name="scenes", n_test=10**12).truth is None
        assert self.frames(name="scenes", n_test=4, side=100_000).truth is None
        assert self.frames(name="scenes", n_test=4, side=32).truth is not None

    def test_nothing_is_fetched(self):
        assert self.frames(name="hf", dataset="owner/name", revision="0" * 40).truth is None

    def test_views_are_those_that_the_data_set_lists(self, tmp_path):
        secret = put(tmp_path, "secret.png", READERS["image-png"].make(tmp_path).read_bytes())
        for name in ("root/test/a/1.png", "root/test/b/2.png", "root/train/a/3.png", "root/train/b/4.png"):
            put(tmp_path, name, secret.read_bytes())
        frames = self.frames(name="image_folder", root=str(tmp_path / "root"))
        assert frames.views("test/a/1.png", ["test/a/1.png"], None) is not None
        assert frames.views("test/a/1.png", ["../secret.png"], None) is None
        assert frames.views(str(secret), [str(secret)], None) is None
        assert frames.image(str(secret), None, (16, 20)) is None


def test_the_bounds_hold_in_a_process_with_little_memory(tmp_path):
    """What foreign.refuse_large lets through fits beside the libraries."""
    assert foreign.FLOOR + foreign.RATIO * 1000 < 600 << 20
    with h5py.File(tmp_path / "depth.h5", "w") as file:
        file.create_dataset("depth", (1_000_000, 1_000_000), "f8")
    said = small(f"benchkit.datasets._pair_depth.read_depth(Path({str(tmp_path / 'depth.h5')!r}), 1.0)")
    assert said.startswith("Unreadable")
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0
