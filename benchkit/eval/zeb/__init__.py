"""The benchmark zeb (configs/benchmarks/zeb.yaml): `python -m benchkit.eval.zeb --tag TAG`."""
