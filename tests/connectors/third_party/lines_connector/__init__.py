"""A connector as another package adds it: lines of text as records, and records as lines of text."""
