"""Images: features are groups of pixels."""
