"""The text of an app for one provider, on one store."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from duly.testing.sender.events import EventRequest, event_of
from duly.testing.sender.provider_delivery import ProviderDelivery
from duly.testing.sender.signers import form_of, variable_of
from duly.webhooks import Secret
from duly.webhooks.examples import assignment_lines, pieces, secrets_for, signs_url

if TYPE_CHECKING:
    from duly.webhooks import Provider

BASE = "http://127.0.0.1:8000"
WIDTH, PIECE = 100, 76
SQLITE_STEPS = "Run it, and try it from a second terminal"
POSTGRES_STEPS = "Name the database, make the tables, run it, and try it from a second terminal"
IN_EVERY_COPY = "is in every copy of this file, so anyone can sign with it"


@dataclass(frozen=True, slots=True)
class AppTemplate:
    """An app to be written: whose webhooks, into which module, on which store."""

    provider: Provider
    module: str
    postgres: bool

    @property
    def has_key_pair(self) -> bool:
        """Return True where the app holds a public key, and the sender the private one."""
        return secrets_for(self.provider)[1] is not None

    @property
    def variable(self) -> str:
        """Return the variable of the secret: that of `duly deliver`, unless it is a key pair."""
        return variable_of(self.provider).replace("_PRIVATE_KEY", "_PUBLIC_KEY")

    @property
    def serve_command(self) -> str:
        """Return the command that serves the app."""
        return f"duly serve {self.module}:app"

    @property
    def deliver_command(self) -> str:
        """Return the command that delivers an event to the app."""
        secret = secrets_for(self.provider)[0]
        if self.has_key_pair:
            secret = f"\"$(python -c 'import {self.module}; print({self.module}.PRIVATE_KEY)')\""
        return f"duly deliver {self.provider.name} --secret {secret}"

    def text(self) -> str:
        """Return the whole file."""
        name = self.provider.name
        signs = signs_url(self.provider)
        return load_template("app").substitute(
            title=self.provider.title,
            name=name,
            module=self.module,
            type=sample_type(self.provider),
            variable=self.variable,
            first_steps=POSTGRES_STEPS if self.postgres else SQLITE_STEPS,
            steps="\n".join(f"    {one}" for one in self.steps()),
            standard="" if self.postgres else "import sqlite3\nfrom contextlib import closing\n",
            further="import psycopg\n" if self.postgres else "",
            secret=secret_lines(self),
            store=load_template("postgres" if self.postgres else "sqlite").substitute(
                module=self.module
            ),
            base=base_lines(self.provider) if signs else "",
            url=f', url=f"{{BASE}}/{name}"' if signs else "",
            later_url=f', url=f"{{BASE}}/{name}-later"' if signs else "",
            ending=load_template("postgres_ending").template if self.postgres else "",
        )

    def steps(self) -> list[str]:
        """Return the commands from the file to the first event."""
        tables = ["export DATABASE_URL=postgresql://localhost/shop", f"python {self.module}.py"]
        return [*(tables if self.postgres else []), self.serve_command, self.deliver_command]


def secret_lines(app: AppTemplate) -> str:
    """Return the lines that read the secret, with an example for development."""
    secret, private = secrets_for(app.provider)
    title = app.provider.title
    if private is None:
        meaning = f"{title} signs with {form_of(app.provider)}. The one below {IN_EVERY_COPY}"
    else:
        meaning = (
            f"The public key that {title} shows you. The private half of the one below "
            f"{IN_EVERY_COPY}"
        )
    lines = [
        *comment(f"{meaning}: set {app.variable} before others can reach the app."),
        *secret_call(app.variable, secret),
    ]
    if private is not None:
        lines += [
            *comment(f"{title} keeps its own private; with this one `duly deliver` can stand in."),
            *assignment_lines("PRIVATE_KEY", pieces(private, PIECE)),
        ]
    return "\n".join(lines)


def secret_call(variable: str, secret: str) -> list[str]:
    """Return the call that reads the environment, over as many lines as it needs."""
    plain = f"SECRET = os.environ.get({json.dumps(variable)}, {json.dumps(secret)})"
    if len(plain) <= WIDTH:
        return [plain]
    arguments = [json.dumps(variable) + ",", *pieces(secret, PIECE)]
    together = f"    {arguments[0]} {arguments[1]}"
    if len(arguments) == 2 and len(together) <= WIDTH:
        return ["SECRET = os.environ.get(", together, ")"]
    return [
        "SECRET = os.environ.get(",
        *(f"    {one}" for one in arguments[:-1]),
        f"    {arguments[-1]},",
        ")",
    ]


def base_lines(provider: Provider) -> str:
    """Return the lines with the app's own URL, for providers that sign it."""
    lines = comment(f"{provider.title} signs the URL too: this is where it reaches the app.")
    return "\n".join(["", *lines, f'BASE = os.environ.get("BASE_URL", "{BASE}")', ""])


def comment(text: str) -> list[str]:
    """Wrap a comment."""
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ")


def sample_type(provider: Provider) -> str:
    """Return the type of the event that `duly deliver` sends by default."""
    secret, private = secrets_for(provider)
    event = event_of(provider, EventRequest(), datetime.now(UTC))
    delivery = ProviderDelivery(
        provider, Secret(private or secret), BASE, event, {}, "genuine", timedelta(0)
    )
    return delivery.event_fields()[0].type or "*"


def load_template(name: str) -> Template:
    """Read a part of the text from this package."""
    return Template(files(__package__).joinpath(f"{name}.txt").read_text(encoding="utf-8"))
