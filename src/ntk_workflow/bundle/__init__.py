"""A run as one file that anyone can check: an RO-Crate in a BagIt bag in a zip archive.

All three formats are open and are read without this package. The same run gives the same bytes.
"""
