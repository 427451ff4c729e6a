"""Heads: features -> prediction. One module each; the module's name is the head's name."""
