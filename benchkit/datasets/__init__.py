"""Datasets: stable item names, images and truth. One module each; the module's name is the dataset's name."""
