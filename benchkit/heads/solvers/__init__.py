"""Numerical cores of heads, on plain arrays: `multinomial` (logistic regression) and `neighbours` (kNN votes)."""
