"""Confs: layers of yaml and arguments become typed settings that know where each value came from."""
