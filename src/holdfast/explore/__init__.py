"""A model and its inputs → a page on this machine, where explanations are looked at, changed and certified."""
