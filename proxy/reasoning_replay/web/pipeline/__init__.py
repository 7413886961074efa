"""Pipeline: the phases of one exchange, in order."""
