"""The benchmark scannet1500 (configs/benchmarks/scannet1500.yaml): `python -m benchkit.eval.scannet1500 --tag TAG`."""
