"""What else may be revealed, as the user states it."""
