"""Mergeable statistics and other parts that know no kernel."""
