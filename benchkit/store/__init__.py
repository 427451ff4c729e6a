"""Files that are complete or absent, whose bytes are checked when read: tables, parts, the bank, content hashes."""
