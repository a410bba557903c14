"""Sub-commands of the command line, one module each: options → library calls → text and an exit code."""
