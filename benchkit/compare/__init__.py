"""Which of several experiments is better, by how much, on which items, and whether chance alone could say so."""
