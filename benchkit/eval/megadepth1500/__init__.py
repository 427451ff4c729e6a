"""The benchmark megadepth1500 (configs/benchmarks/megadepth1500.yaml): `python -m benchkit.eval.megadepth1500 --tag TAG`."""
