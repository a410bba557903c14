"""Values that restate what was certified: frozen, comparable, JSON both ways, readable."""
