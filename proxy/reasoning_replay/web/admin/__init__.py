"""Admin: health, metrics, conversations and the inspector."""
