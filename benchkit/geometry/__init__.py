"""Points, lines and maps between images; the corner of the top-left pixel is (0, 0), its centre (.5, .5)."""
