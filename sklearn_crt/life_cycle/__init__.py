"""What all estimators share: fitted values, ``fit`` and queries, intervals."""
