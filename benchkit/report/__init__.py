"""One HTML file that shows others what experiments are worth: offline, from the files of their tags alone."""
