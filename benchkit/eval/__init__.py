"""Evaluate finished exports: files in, numbers out, in seconds; no torch, no data set.

One module per family of benchmarks; the module's name is the family's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchkit.eval._evaluation import Evaluation


def eval_arguments(arguments: Sequence[str], benchmark: str) -> list[str]:
    """Those of an export's `key=value` arguments that eval takes too: eval.* and benchmarks.<name>.eval.*"""
    return [each for each in arguments if each.startswith(("eval.", f"benchmarks.{benchmark}.eval."))]


def evaluate(
    benchmark: str,
    tag: str,
    *,
    outputs: str | Path | None = None,
    conf: str | Path | None = None,
    arguments: Sequence[str] = (),
    overwrite_eval: bool = False,
    records: str | Path | None = None,
) -> Evaluation:
    """Score one tag from its predictions.h5 and targets.h5, and write results.h5, summaries.json and the record's scores.

    Args:
        benchmark: instance name, as in the path.
        tag: name of the experiment.
        outputs: the outputs folder; default $BENCHKIT_OUTPUTS or ./outputs.
        conf: a conf whose benchmarks.<name>.eval is used.
        arguments: `eval.key=value`.
        overwrite_eval: replace scores that were made with other settings (and recompute those with the same).
        records: a .jsonl file to which the record is appended as one line, computed now or before.

    Raises:
        UsageError: nothing was exported under this tag; settings that are wrong, or other than the scores were made with.
        RunError: a file is missing, damaged, or does not belong to the others.
    """
    from benchkit import trust
    from benchkit.eval._evaluation import evaluate_folder
    from benchkit.store.outputs import Outputs

    trust.typed(benchmark)
    return evaluate_folder(Outputs(outputs), benchmark, tag, conf, arguments, overwrite_eval, records)
