"""How a command ends: the exit codes, the same for every command."""

from __future__ import annotations

EXIT_OK = 0
"""Done; confirmed; it holds."""

EXIT_NO = 1
"""Not confirmed; it does not hold."""

EXIT_UNKNOWN = 2
"""The draws cannot tell."""

EXIT_ERROR = 3
"""Something that was given cannot be used, or went wrong; nothing is claimed."""

EXIT_INTERRUPTED = 130
"""Ended at once by whoever watched, as shells say of Ctrl-C."""

IN_WORDS = (
    "Exit codes: 0 done or it holds, 1 not confirmed or it does not hold, 2 cannot tell, 3 an error, in options too."
)
