"""The timeline's server side: index, tiles, matches, details and their endpoints."""
