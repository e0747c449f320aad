"""Hybrids, and the samplers that serve as their parts."""
