"""How the bundled models were made; ``make bundled`` makes them again."""
