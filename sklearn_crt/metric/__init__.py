"""Metrics learned from rows and targets."""
