"""The gate: what a run did, compared with what it did before."""
