"""Parts of pages, one file each."""
