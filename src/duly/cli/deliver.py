"""``duly deliver``: send a genuine signed delivery of any provider to any URL, once or often."""

from __future__ import annotations

import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from duly.app.loading import add_optional_argument
from duly.app.output import Progress, add_json_option, print_answer
from duly.cli.options import positive_seconds, whole_number
from duly.core.errors import UsageError
from duly.testing.sender.copies import send_all_at_once, send_one_by_one
from duly.testing.sender.events import EventRequest, event_of
from duly.testing.sender.provider_delivery import ProviderDelivery, moment_of, stale_age
from duly.testing.sender.receiver_connection import checked_url, printable_text
from duly.testing.sender.renewal import format_to_second
from duly.testing.sender.report import DeliveryReport
from duly.testing.sender.signers import form_of, signer_for, variable_of
from duly.webhooks import provider_named, provider_names
from duly.webhooks.sign import fitting_scheme

if TYPE_CHECKING:
    import argparse

    from duly.core.json_bytes import Json
    from duly.testing.sender.events import EventToSign
    from duly.testing.sender.provider_delivery import Manner

EXAMPLES = """\
examples:
  duly deliver stripe --secret whsec_example    to http://127.0.0.1:8000/stripe
  duly deliver github https://shop.example/hooks --type issues.opened --body event.json
  duly deliver stripe --duplicate 3             the same event again: retries
  duly deliver stripe --concurrent 200          the same event 200 times at one instant
  duly deliver stripe --tamper                  must be refused
  duly deliver --list                           every provider, and what its secret looks like

The secret is taken from --secret, from STRIPE_WEBHOOK_SECRET and the like, or asked for; a
command line can be seen by other users of the machine. Without --body the event is the profile's
sample under a fresh id. A file is sent as it stands, but for an --id or --type that has to be
written into it, and for the event's own time where its body has one: that becomes the beginning of
this hour, unless --keep-time is given. A recorded event would be older than what the receiver
remembers, and be answered `too_old`.
Of more than 20 copies only the unusual replies are shown, and the summary.
The exit code is 0 if what was to be expected came (2xx, or a refusal of what was changed or stale,
and no event accepted twice), 1 if not, or if the event was `too_old` and so not processed, and 2
for a command that cannot work as written."""

DEFAULT_URL = "http://127.0.0.1:8000/{}"
MOST_COPIES, MOST_AT_ONCE = 1_000_000, 1_000
# With more copies than this, only progress, the unusual replies and the summary are printed.
MOST_LINES = 20
BAR_WIDTH = 24
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    where = f"where to (default {DEFAULT_URL.format('PROVIDER')})"
    add_optional_argument(parser, "provider", "whose delivery to send, as in stripe")
    add_optional_argument(parser, "url", where)
    parser.add_argument("--list", action="store_true", help="only list the providers")
    parser.add_argument("--secret", help="what to sign with, better from the environment or asked")
    parser.add_argument("--body", metavar="FILE", help="the body to sign, - for standard input")
    parser.add_argument("--id", help="the event id (default: a fresh one, or the file's own)")
    parser.add_argument(
        "--type",
        help="the event type (default: the sample's, or the file's own); of Stripe, GitHub, GitLab "
        "and Shopify the sample follows it",
    )
    parser.add_argument(
        "--keep-time",
        action="store_true",
        help="leave the event's own time in the file of --body as it is",
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="one more header; may be repeated",
    )
    add_copies(parser)
    add_faults(parser)
    parser.add_argument(
        "--timeout",
        type=positive_seconds,
        default=10.0,
        metavar="SECONDS",
        help="how long to wait for a reply (default 10)",
    )
    add_json_option(parser)


def add_copies(parser: argparse.ArgumentParser) -> None:
    """Declare how many copies are sent, and how."""
    copies = parser.add_mutually_exclusive_group()
    copies.add_argument(
        "--duplicate",
        type=whole_number("a number of copies", 1, MOST_COPIES),
        metavar="N",
        help="the same event N times, one after the other, as the provider would retry",
    )
    copies.add_argument(
        "--concurrent",
        type=whole_number("a number of copies", 1, MOST_AT_ONCE),
        metavar="N",
        help=f"the same event N times at one instant, up to {MOST_AT_ONCE:,}",
    )


def add_faults(parser: argparse.ArgumentParser) -> None:
    """Declare what is wrong with the delivery, if anything."""
    faults = parser.add_mutually_exclusive_group()
    faults.add_argument(
        "--tamper", action="store_true", help="change one byte of the body after it was signed"
    )
    faults.add_argument(
        "--stale", action="store_true", help="sign it too long ago, where the provider signs a time"
    )


def run(arguments: argparse.Namespace) -> int:
    """Send, print the replies, and return whether they were as expected."""
    if arguments.list:
        return list_providers(arguments)
    if arguments.provider is None:
        raise UsageError(
            "which provider? As in `duly deliver stripe`; `duly deliver --list` names them all"
        )
    report = begin_report(arguments)
    send_copies(arguments, report)
    if arguments.json:
        print_answer(arguments, "", report.document())
    elif len(report.answers) > 1:
        print(report.summary())
    surprise = report.surprise()
    if surprise is not None:
        print(f"duly: {surprise}", file=sys.stderr)
    return 0 if surprise is None else 1


def begin_report(arguments: argparse.Namespace) -> DeliveryReport:
    """Return a report on the delivery, named by the id of its event; of a batch, the first."""
    delivery = delivery_of(arguments)
    first, *more = delivery.event_fields()
    if first.type is None and delivery.provider.type is not None:
        print(
            f"duly: the event has no type: {delivery.provider.title} puts it in "
            f"{delivery.provider.type}; use --type",
            file=sys.stderr,
        )
    report_renewed_time(delivery.event)
    name = printable_text(first.id)  # a file may say anything
    return DeliveryReport(delivery, f"{name} and {len(more)} more" if more else name)


def report_renewed_time(event: EventToSign) -> None:
    """Print that the event's time in a file was moved."""
    renewed = event.renewed
    if renewed is not None and renewed.before is not None and renewed.after is not None:
        print(
            f"duly: the event's own time was moved from {format_to_second(renewed.before)} to "
            f"{format_to_second(renewed.after)}; --keep-time leaves it",
            file=sys.stderr,
        )


def delivery_of(arguments: argparse.Namespace) -> ProviderDelivery:
    """Build the delivery that the command line describes; errors come before anything is sent."""
    provider = provider_named(arguments.provider)
    url = checked_url(arguments.url or DEFAULT_URL.format(provider.name))
    headers = dict(parse_header(text) for text in arguments.header)
    secret = signer_for(provider, arguments.secret)
    scheme = fitting_scheme(provider.schemes, secret)
    age = stale_age(provider, scheme) if arguments.stale else timedelta(0)
    body = read_body(arguments.body)
    request = EventRequest(body, arguments.id, arguments.type, keep_time=arguments.keep_time)
    manner: Manner = "tampered" if arguments.tamper else "stale" if arguments.stale else "genuine"
    event = event_of(provider, request, moment_of(age))
    return ProviderDelivery(provider, secret, url, event, headers, manner, age)


def send_copies(arguments: argparse.Namespace, report: DeliveryReport) -> None:
    """Send all copies and print a line for each; of many, only the unusual ones at the end."""
    count = arguments.concurrent or arguments.duplicate or 1
    send = send_all_at_once if arguments.concurrent else send_one_by_one
    unusual = []
    with Progress() as progress:
        for answer in send(report.delivery, count, arguments.timeout):
            line = report.add(answer)
            if count > MOST_LINES:
                progress.show(progress_bar(len(report.answers), count))
                unusual += [line] if report.last_is_unusual() else []
            elif not arguments.json:
                print(line)
    if unusual and not arguments.json:
        print("\n".join(unusual[:MOST_LINES]))
        if len(unusual) > MOST_LINES:
            print(f"and {len(unusual) - MOST_LINES:,} more that are unusual")


def progress_bar(done: int, count: int) -> str:
    """Draw how many copies were sent."""
    full = BAR_WIDTH * done // count
    return f"[{'#' * full}{'.' * (BAR_WIDTH - full)}] {done:,} of {count:,} sent"


def list_providers(arguments: argparse.Namespace) -> int:
    """Print every provider by name, and what its secret looks like."""
    providers = [provider_named(name) for name in provider_names()]
    width = max(len(one.name) for one in providers)
    lines = [f"{one.name:<{width}}  {form_of(one)}" for one in providers]
    members: list[Json] = [
        {
            "name": one.name,
            "title": one.title,
            "secret": form_of(one),
            "variable": variable_of(one),
            "docs": one.docs,
        }
        for one in providers
    ]
    print_answer(arguments, "\n".join(lines), members)
    return 0


def read_body(path: str | None) -> bytes | None:
    """Read the body from a file or standard input."""
    if path is None:
        return None
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise UsageError(f"{path} cannot be read: {problem.strerror}") from None


def parse_header(text: str) -> tuple[str, str]:
    """Parse a header; its value may be a password, and no error repeats it."""
    name, colon, value = text.partition(":")
    value = value.strip()
    if (
        not colon
        or not HEADER_NAME.fullmatch(name)
        or not value.isascii()
        or not value.isprintable()
    ):
        raise UsageError("--header must be like 'X-Shop: 7', in printable ASCII")
    return name, value
