"""Backbones: frozen models as images -> features. One module each; the module's name is the backbone's name."""
