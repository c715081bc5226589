"""A run of many ranks: each rank's trace is reduced to small facts, and every question is asked of the facts."""
