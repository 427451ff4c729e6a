"""The same photo twice, found from the files of an export alone: no images, no torch.

Equal bytes have one sha256. Other copies are found by their thumbnails (96 pixels, JPEG): pairs are proposed by a
perceptual hash and by the cosine of their features (`candidates`), and a pair counts only if the pixels of its thumbnails
agree, as they are or after one was moved and scaled onto the other (`agreement`). What that finds is measured there.
"""
