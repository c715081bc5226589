"""Runs that are elsewhere and reductions on several machines: the extra ``[cluster]``.

Nothing heavy is imported before it is used: fsspec where a path is an address (``s3://…``), Dask
where a scheduler is named.
"""
