"""Numerical cores of heads, on plain arrays: `multinomial` (logistic regression), `adamw` (linear probe), `least_squares`
(ridge regression) and `neighbours` (kNN votes)."""
