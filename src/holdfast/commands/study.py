"""``holdfast study …``: many inputs, methods and settings."""

from __future__ import annotations

from holdfast.commands import study_plan, study_report, study_run, study_summary
from holdfast.commands.parsing import Commands

_COMMANDS = (study_plan, study_run, study_summary, study_report)


def add(commands: Commands) -> None:
    """Add the command and its sub-commands."""
    parser = commands.add_parser(
        "study",
        help="whole data sets: init, plan, run, status, export, merge, summary, guarantee, report",
        description="Many inputs × methods × settings, certified one by one into one file that can be resumed.",
        epilog="In this order: holdfast study init study.toml (then edit it); holdfast study plan study.toml; holdfast "
        "study run study.toml; holdfast study summary study.db; holdfast study report study.db.",
    )
    inner = parser.add_subparsers(dest="study_command", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add(inner)
