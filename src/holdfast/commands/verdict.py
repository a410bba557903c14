"""The answer of a gate → a sentence, an exit code, JSON for programs and JUnit XML for test reports."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from holdfast.commands.codes import EXIT_ERROR, EXIT_NO, EXIT_OK, EXIT_UNKNOWN

HOLDS, DOES_NOT_HOLD, CANNOT_TELL, ERROR = "holds", "does not hold", "cannot tell", "error"

CODES = {HOLDS: EXIT_OK, DOES_NOT_HOLD: EXIT_NO, CANNOT_TELL: EXIT_UNKNOWN, ERROR: EXIT_ERROR}

_ELEMENTS = {DOES_NOT_HOLD: "failure", CANNOT_TELL: "failure", ERROR: "error"}
"""What JUnit calls it. It has no word for "cannot tell", and "skipped" would pass unnoticed."""


@dataclass(frozen=True)
class Verdict:
    """What a gate says of one explanation.

    Attributes
    ----------
    name : str
        What the check is called in reports.
    answer : {"holds", "does not hold", "cannot tell", "error"}
        An error claims nothing.
    reason : str
        One sentence.
    seconds : float
        How long it took.
    certificate : dict or None
        The ``RadiusCertificate`` as JSON values; None for an error.
    needs_consistent : bool
        Whether the explanation alone had to be predicted like the input.
    """

    name: str
    answer: str
    reason: str
    seconds: float
    certificate: dict[str, Any] | None = None
    needs_consistent: bool = False

    @property
    def exit_code(self) -> int:
        """0 holds, 1 does not hold, 2 cannot tell, 3 error."""
        return CODES[self.answer]

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(
            {
                "schema": "holdfast.check",
                "name": self.name,
                "answer": self.answer,
                "exit_code": self.exit_code,
                "reason": self.reason,
                "needs_consistent": self.needs_consistent,
                "seconds": round(self.seconds, 3),
                "certificate": self.certificate,
            }
        )

    def to_junit(self) -> str:
        """A JUnit test suite of one test case.

        Examples
        --------
        >>> print(Verdict("cat", "does not hold", "It changes.", 0.5).to_junit())  # doctest: +ELLIPSIS
        <?xml version='1.0' encoding='utf-8'?>
        <testsuite name="holdfast check" tests="1" failures="1" errors="0" time="0.500">...
        """
        kind = _ELEMENTS.get(self.answer)
        counts = {f"{word}s": str(int(kind == word)) for word in ("failure", "error")}
        time = f"{self.seconds:.3f}"
        suite = ElementTree.Element("testsuite", {"name": "holdfast check", "tests": "1", **counts, "time": time})
        case = ElementTree.SubElement(
            suite, "testcase", classname="holdfast.check", name=printable(self.name), time=time
        )
        if kind is not None:
            told = {"type": self.answer, "message": f"{self.answer}: {printable(self.reason)}"}
            ElementTree.SubElement(case, kind, told).text = printable(self.reason)
        else:
            ElementTree.SubElement(case, "system-out").text = printable(self.reason)
        xml: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
        return xml.decode()


def printable(text: str) -> str:
    """The text with what XML cannot hold shown as escapes."""
    return "".join(
        one if one in "\t\n" or (one >= " " and not _is_barred(one)) else f"\\x{ord(one):02x}" for one in text
    )


def _is_barred(one: str) -> bool:
    return "\ud800" <= one <= "\udfff" or one in "\ufffe\uffff"
