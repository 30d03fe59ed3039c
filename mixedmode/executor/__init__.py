"""Runs one epoch of a plan."""
