"""What a benchmark with a board needs beside its scores: manifests of data, audits, submissions and their comparison."""
