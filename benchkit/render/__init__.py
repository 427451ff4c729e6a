"""Offline generator of 3-D scenes: one ray caster gives image, depth, normals, instances and cameras."""
