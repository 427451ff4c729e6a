"""Scores that several benchmarks share (NumPy only): classification, ranking, and bootstrap intervals."""
