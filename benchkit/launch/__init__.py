"""Many exports as jobs: on a SLURM cluster, or as processes of this machine, both through submitit.

A job is one share of one conf: all benchmarks of a conf share its bank, so their images are forwarded once. Every job writes
its rows by name and the last one finishes the tags, so a job that was preempted, killed or started again costs what it had
not written, and nothing is handed from one to another.
"""
