"""Robust estimators of two-view geometry, one module per library: matches -> homography or relative pose.

Each module offers `Settings`, the library's own options under the library's own names and with its own defaults, and `build`.
What they have in common (too few matches, degenerate ones, results that are none) is in `base`.
"""
