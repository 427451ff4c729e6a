"""Finished experiments as they are read again: opened by tag, their scores by item, their items as pictures."""
