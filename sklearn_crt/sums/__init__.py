"""Sums of features over rows, and their standard errors."""
