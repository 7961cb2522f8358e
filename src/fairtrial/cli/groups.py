"""Groups of commands: the name of each command, its module, and its line in the list.

No command is imported here, so that help and completion cost no more than click.
"""

from __future__ import annotations

import click

from fairtrial.cli.exits import EPILOG
from fairtrial.cli.lazy import LazyCommand

__all__ = ["study", "token"]


@click.group(epilog=EPILOG, short_help="Carry out studies by hand, look at them, audit them.")
def study() -> None:
    """Carry out studies by hand, look at them, audit them, export and import their logs.

    STUDY is the name of a study in the storage given by --storage or the environment variable
    FAIRTRIAL_STORAGE; or a configuration file (*.toml) that names both.
    """


for _command in (
    LazyCommand("create", "by_hand:create", "Create the study that the file CONFIG describes."),
    LazyCommand(
        "ask", "by_hand:ask", "Ask STUDY what to try next, for one pull or for many at once."
    ),
    LazyCommand(
        "outstanding",
        "by_hand:outstanding",
        "Show the open pulls of STUDY: those without a result.",
    ),
    LazyCommand(
        "tell", "by_hand:tell", "Tell STUDY the result of a pull, or the results in a table."
    ),
    LazyCommand("fail", "by_hand:fail", "Tell STUDY that a pull will have no result."),
    LazyCommand("amend", "by_hand:amend", "Correct a result that was told to STUDY."),
    LazyCommand("kit", "by_hand:kit", "Record a kit that was handed out for a pull of STUDY."),
    LazyCommand("supply", "masking:supply", "Add kits to the masked study STUDY."),
    LazyCommand("mask", "masking:mask", "Seal what the arms of the masked study STUDY are."),
    LazyCommand("unmask", "masking:unmask", "Show what a pull or a code of STUDY is."),
    LazyCommand("close", "by_hand:close", "Close an arm or a group of STUDY."),
    LazyCommand("stop", "by_hand:stop", "Stop STUDY without an answer: no more pulls are issued."),
    LazyCommand("list", "study:list_", "List the studies of a storage."),
    LazyCommand("show", "study:show", "Show the state of STUDY."),
    LazyCommand("history", "study:history", "Print the log of STUDY, event by event."),
    LazyCommand("verify", "study:verify", "Audit STUDY: its hashes and all its decisions."),
    LazyCommand("head", "study:head", "Print the hash of STUDY's last event."),
    LazyCommand(
        "accept-loss", "study:accept_loss_", "Continue studies whose logs have lost their end."
    ),
    LazyCommand("export", "study:export", "Write the log of STUDY to the file PATH."),
    LazyCommand("import", "study:import_", "Create a study from an exported log."),
    LazyCommand("report", "study:report", "Write STUDY as one HTML page."),
):
    study.add_command(_command)


@click.group(epilog=EPILOG, short_help="Manage the tokens of a service: who may do what.")
def token() -> None:
    """Control who may use the service that `fairtrial serve` runs on a storage, and for what.

    A token is a text that works like a key. Each person and each machine gets its own, and the log
    of a study names them by it.
    """


for _command in (
    LazyCommand("create", "token:create", "Create a token."),
    LazyCommand("list", "token:list_", "List the tokens in a storage."),
    LazyCommand("revoke", "token:revoke", "Revoke a token."),
):
    token.add_command(_command)
