"""The benchmark hpatches (configs/benchmarks/hpatches.yaml): `python -m benchkit.eval.hpatches --tag TAG`."""
