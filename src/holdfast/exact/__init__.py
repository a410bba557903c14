"""Models whose structure is known → how many masks keep a prediction, and the nearest that does not, without draws."""
