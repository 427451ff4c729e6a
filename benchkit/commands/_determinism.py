"""`benchkit doctor --determinism`: the table of what changes a model's bits."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchkit.commands._tables import render

if TYPE_CHECKING:
    from benchkit.export.determinism import Finding


def report_determinism(given: Sequence[str], as_json: bool) -> int:
    """Measure and print; returns 0, or 3 where a promise does not hold.

    Args:
        given: a conf, then `key=value` settings.
        as_json: print JSON.
    """
    import torch

    from benchkit.conf.build import build
    from benchkit.export import determinism

    conf, *arguments = given
    batch_size = build(conf, determinism.BENCHMARK, arguments).model.batch_size
    threads, capability = torch.get_num_threads(), torch.backends.cpu.get_cpu_capability()
    every = determinism.ways(threads, batch_size, capability, os.cpu_count() or 1)
    found = determinism.measure(conf, arguments, every, threads)
    broken = [each for each in found if not each.kept]
    if as_json:
        print(
            json.dumps(
                [{**dataclasses.asdict(each), "way": each.way.name, "promise": each.way.promise} for each in found]
            )
        )
        return 3 if broken else 0
    rows = [_row(each) for each in found]
    print(
        render(["made otherwise", "promise", "equal in bits", "largest difference", "lowest cosine", ""], rows, "table")
    )
    print(
        f"{conf}, {determinism.IMAGES} generated scenes, compared with fp32, batches of {batch_size}, {threads} threads, "
        f"{capability}. Differences are of a row's largest value."
    )
    return 3 if broken else 0


def _row(found: Finding) -> list[str]:
    from benchkit.export.determinism import LOWER_PRECISION, SAME_PRECISION

    promises = {
        "bits": "equal in bits",
        "fp32": f"within {SAME_PRECISION:g}",
        "lower": f"cosine at least {LOWER_PRECISION:g}",
    }
    numbers = [f"{found.apart:.2g}", f"{found.cosine:.7f}"]
    equal, kept = "yes" if found.equal else "no", "kept" if found.kept else "BROKEN"
    return [found.way.name, promises[found.way.promise], equal, *numbers, kept]
