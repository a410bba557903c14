"""Texts: features are tokens, words or segments."""
