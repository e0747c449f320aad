"""Hybrids, and the samplers that are used as their parts."""
