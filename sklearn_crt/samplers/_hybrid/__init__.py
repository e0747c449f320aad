"""Hybrid samplers, and the samplers that are used as their parts."""
