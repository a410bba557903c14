"""Every figure the project states, printed by one command: ``make bench``."""
