"""A history and its live continuation as one source."""
