"""The commands, one module each: `benchkit X` runs `benchkit.commands.X`. They are thin: the work is in the packages."""
