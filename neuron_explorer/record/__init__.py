"""Runs a program unchanged, as ``python script.py`` would, and records it."""
