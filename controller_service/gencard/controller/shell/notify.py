"""notify: word to stewards, tried out and looked at."""

import secrets

import typer

from gencard.controller.controller_state import utc_now
from gencard.controller.notify.channels import Channel, Fate, channels_of
from gencard.controller.notify.messages import Kind, Message
from gencard.controller.notify.notifier import link_of
from gencard.controller.settings.settings import Settings
from gencard.controller.shell.terminal import HERE, AsJson, ConfigFile, console, say, say_json
from gencard.shell import new_typer

app = new_typer(help="Word to stewards by webhook and mail, as the settings say.")

_ADVICE = {
    "webhook": "Look at url, secret_file and authority of [notify.webhook].",
    "mail": "Look at host, port, security, user and password_file of [notify.mail].",
}


@app.callback()
def commands() -> None:
    """Word to stewards by webhook and mail, as the settings say."""


@app.command("test")
def try_out(config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """Send a test message by each way of the settings, and show whether it was taken.

    The message holds fixed words and the trust domain. Nothing is retried. Exit code 1 where a
    receiver did not take it, or the settings name no way.
    """
    settings = Settings.load(config)
    channels = channels_of(settings.notify)
    if not channels:
        say("The settings name nobody to notify: they need [notify.webhook] or [notify.mail].")
        raise typer.Exit(1)
    outcomes = {channel.name: _problem(channel, settings) for channel in channels}
    if as_json:
        say_json(
            {name: {"taken": not problem, "problem": problem} for name, problem in outcomes.items()}
        )
    else:
        for name, problem in outcomes.items():
            say(f"{name}: not taken ({problem}). {_ADVICE[name]}" if problem else f"{name}: taken")
    raise typer.Exit(int(any(outcomes.values())))


def _problem(channel: Channel, settings: Settings) -> str:
    """Why a way did not take the test; empty where it did."""
    now = utc_now()
    name, domain = f"word_{secrets.token_hex(12)}", settings.identity.trust_domain
    message = Message(name, (Kind.TEST,), domain, link_of(settings), now)
    with console.status(f"Sending by {channel.name}"):
        attempt = channel.send(message, now)
    return "" if attempt.fate is Fate.TAKEN else attempt.problem
