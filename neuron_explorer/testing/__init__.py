"""What a test suite uses: see ``plugin`` for the pytest plugin."""
