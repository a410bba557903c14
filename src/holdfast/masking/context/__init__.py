"""Prompts: features are parts of the context that a language model answers from."""
