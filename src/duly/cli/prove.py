"""``duly prove``: prove that a handler takes effect once, by killing it at every step."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.app.loading import FORMS, VARIABLE, add_optional_argument, app_name
from duly.app.output import Progress, add_json_option, one_line, print_answer
from duly.core.errors import UsageError
from duly.prove.asks import EventAsk, JobAsk
from duly.prove.case_runner import ProofRequest
from duly.prove.clean_interpreter import ImportableApp
from duly.prove.fork_server import PATIENCE
from duly.prove.prover import ProofOptions, prove_handler
from duly.prove.prover_errors import not_called_unsafe
from duly.prove.recording import CannedAnswers
from duly.prove.report import verdict_document, verdict_text

if TYPE_CHECKING:
    from duly.prove.asks import Ask

MOST_PATIENCE = 86_400.0

EXAMPLES = """\
examples:
  duly prove shop:app --event payment.json
  duly prove shop:app --event placed.json --event cancelled.json
  duly prove shop:app --job send_receipt --payload receipt.json
  duly prove shop:app --event payment.json --only kill:7 --keep failed/

The handler runs once, and that is the baseline. Then the event is delivered
twice, 20 times at once, and in another order if a second, later event is
given; the process is killed with -9 after each of its SQL statements and
outgoing calls, and the sender tries again; a worker is paused until another
one has done its job, and goes on; an attempt fails at its end, and the same
process tries again. Each time the tables of the application and its calls must
be as after the single run. The first difference is reported step by step, with
the mistake behind it and what to do.

Calls by httpx, requests, urllib, http.client and smtplib are recorded and
answered here, with 200 and {} unless --answers says otherwise; none is made.
  {"POST https://bank.example/*": {"status": 201, "json": {"id": "ch_1"}}}

The database is the application's own (DULY_URL, or what it says itself), and
is put back afterwards as it was; nothing else may use it meanwhile. Use one
for tests. On PostgreSQL its name must say so, and its role needs CREATEDB.

The exit code is 0 if every case ended as the single run did, 1 if one did
not, 2 for what cannot be proved as it is, and 130 after an interrupt."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_optional_argument(parser, "app", f"whose handler to prove: {FORMS} (or {VARIABLE})")
    parser.add_argument(
        "--event",
        action="append",
        default=[],
        metavar="FILE",
        help="the body of the event, as its provider sends it; a second one is a later event",
    )
    parser.add_argument("--source", default="", help="the source that it comes from")
    parser.add_argument("--id", help="the event id, where it travels in a header")
    parser.add_argument("--type", help="the event type, where it travels in a header")
    parser.add_argument(
        "--secret-from",
        metavar="VARIABLE",
        help="an environment variable with what to sign with, unless with the source's own secret",
    )
    parser.add_argument(
        "--through",
        metavar="SITE",
        help="deliver through your own site, ASGI or WSGI, such as web:api; needs --path",
    )
    parser.add_argument("--path", help="where the site takes the event: /webhooks/orders")
    parser.add_argument("--job", metavar="NAME", help="a job instead of an event")
    parser.add_argument("--payload", metavar="FILE", help="the payload of the job, as JSON")
    parser.add_argument(
        "--table",
        action="append",
        metavar="NAME",
        help="compare only this table; may be given several times",
    )
    parser.add_argument("--answers", metavar="FILE", help="what outgoing calls are answered")
    add_proof_options(parser)
    add_json_option(parser)


def add_proof_options(parser: argparse.ArgumentParser) -> None:
    """Declare how the proof is made."""
    parser.add_argument(
        "--let-through",
        action="append",
        default=[],
        type=address,
        metavar="HOST:PORT",
        help="a server of the application's own, such as a cache, the path of a socket, or a "
        "program that it may start; may be given several times",
    )
    parser.add_argument("--only", metavar="CASE", help="one case: twice, kill:7, pause:2, fail")
    parser.add_argument(
        "--keep", metavar="DIR", type=Path, help="keep the database of the failing case there"
    )
    parser.add_argument(
        "--database-is-disposable",
        action="store_true",
        help="a PostgreSQL database may be filled and restored under any name",
    )
    parser.add_argument(
        "--patience",
        type=seconds,
        default=PATIENCE,
        metavar="SECONDS",
        help=f"how long one process may take (default {PATIENCE:g})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prove, and print the result; with --json also the reason why it could not, as JSON."""
    try:
        return prove_and_report(arguments)
    except UsageError as problem:
        if arguments.json:
            print(json.dumps({"error": one_line(problem)}))
        raise


def prove_and_report(arguments: argparse.Namespace) -> int:
    """Prove, print the result, and return the exit code."""
    if not hasattr(os, "fork"):
        raise UsageError(
            "a proof forks its processes, which this system cannot do: use Linux or macOS"
        )
    if (arguments.through is None) != (arguments.path is None):
        raise UsageError("--through is the site, and --path where it takes the event: give both")
    name = app_name(arguments.app)
    answers = read_json(arguments.answers) if arguments.answers else {}
    CannedAnswers(answers)  # refused before anything is run
    request = ProofRequest(
        asks_of(arguments),
        None if arguments.table is None else tuple(one.lower() for one in arguments.table),
        answers=answers,
        allowed=frozenset(arguments.let_through),
        only=arguments.only,
    )
    options = ProofOptions(arguments.keep, arguments.database_is_disposable, arguments.patience)
    try:
        with not_called_unsafe(), Progress() as progress:
            verdict = prove_handler(
                ImportableApp(name, arguments.through), request, options, progress.show
            )
    except KeyboardInterrupt:  # another error is raised where the database could not be restored
        print("duly: the proof was stopped; the database is as it was", file=sys.stderr)
        raise
    again = repeat_command(arguments, name)
    print_answer(arguments, verdict_text(verdict, again), verdict_document(verdict, again))
    return 0 if verdict.finding is None else 1


def asks_of(arguments: argparse.Namespace) -> tuple[Ask, ...]:
    """Return the events or the job to prove with."""
    if arguments.event and arguments.job:
        raise UsageError("--event and --job are two proofs: give one of them")
    if not arguments.event and not arguments.job:
        raise UsageError("what should be proved? --event FILE, or --job NAME with --payload FILE")
    if arguments.job:
        payload = read_json(arguments.payload) if arguments.payload else None
        return (JobAsk(arguments.job, payload),)
    secret = None
    if arguments.secret_from is not None:
        secret = os.environ.get(arguments.secret_from)
        if not secret:
            raise UsageError(f"the environment has no {arguments.secret_from}")
    bodies = [read_file(file) for file in arguments.event]
    return tuple(
        EventAsk(arguments.source, body, arguments.id, arguments.type, secret, arguments.path)
        for body in bodies
    )


def read_file(file: str) -> bytes:
    """Read a file."""
    try:
        return Path(file).read_bytes()
    except OSError as problem:
        raise UsageError(f"{file} cannot be read: {problem.strerror}") from None


def read_json(file: str) -> Any:
    """Read a file of JSON."""
    try:
        return json.loads(read_file(file))
    except ValueError as problem:
        raise UsageError(f"{file} must be JSON: {problem}") from None


def seconds(text: str) -> float:
    """Parse a patience in seconds, for argparse."""
    found = float(text)
    if not 0 < found < MOST_PATIENCE:
        raise argparse.ArgumentTypeError("write seconds, more than 0")
    return found


def address(text: str) -> tuple[str, int]:
    """Parse a host and a port, or the name of a program, for argparse."""
    if ":" not in text and text:
        return text, 0  # the name of a program
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal():
        raise argparse.ArgumentTypeError("write it like 127.0.0.1:6379")
    return host.strip("[]"), int(port)


def repeat_command(arguments: argparse.Namespace, name: str) -> str:
    """Return the command line again, without options that choose cases or the output."""
    words = ["duly", "prove", name]
    for option in ("event", "source", "id", "type", "secret_from", "through", "path", "job"):
        words += option_words(option, getattr(arguments, option))
    for option in ("payload", "table", "answers"):
        words += option_words(option, getattr(arguments, option))
    words += option_words("let_through", [f"{host}:{port}" for host, port in arguments.let_through])
    if arguments.database_is_disposable:
        words.append("--database-is-disposable")
    return shlex.join(words)


def option_words(option: str, value: str | list[str] | None) -> list[str]:
    """Return an option as it was given."""
    values = value if isinstance(value, list) else [value] if value else []
    return [word for one in values for word in (f"--{option.replace('_', '-')}", one)]
