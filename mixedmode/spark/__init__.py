"""Spark itself: session, packages, frames, error texts, and its own checkpoint folder."""
