"""Model, data and masking: what names them or holds them → the inputs a question is asked about."""
