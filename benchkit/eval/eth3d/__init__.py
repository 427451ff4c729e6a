"""The benchmark eth3d (configs/benchmarks/eth3d.yaml): `python -m benchkit.eval.eth3d --tag TAG`."""
