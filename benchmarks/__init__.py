"""Speed of the maps and estimators beside their peers; see compare.py."""
