"""The pages, one file each. Pages do not import each other."""
