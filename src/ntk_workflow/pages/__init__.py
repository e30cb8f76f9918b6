"""HTML pages of one file each."""
