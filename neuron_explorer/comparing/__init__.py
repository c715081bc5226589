"""Two traces, or two sets of repeated runs, side by side."""
