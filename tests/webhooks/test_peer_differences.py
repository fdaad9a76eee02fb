"""Where duly and a provider's library differ, and on purpose.

Each test first shows that the library lets a delivery through, then that duly does not. Should a
library become stricter, its test fails here and can go.
"""

import json
import time
from collections.abc import Mapping

import pytest
import stripe

import duly
from duly.errors import Rejected
from duly.webhooks import Code, Signed
from tests.webhooks.peers.adyen import AdyenNotification, item_of, notification
from tests.webhooks.peers.discord import SIGNATURE, TIMESTAMP, Discord
from tests.webhooks.peers.discord import pair as discord_pair
from tests.webhooks.peers.gidgethub import GitHub, GitHubSha1
from tests.webhooks.peers.hubspot import HubSpotV1, HubSpotV2, HubSpotV3
from tests.webhooks.peers.paddle import HEADER as PADDLE
from tests.webhooks.peers.paddle import Paddle
from tests.webhooks.peers.peer import Keys, Peer, Request, duly_refusal, same
from tests.webhooks.peers.sendgrid import SIGNATURE as SENDGRID_SIGNATURE
from tests.webhooks.peers.sendgrid import TIMESTAMP as SENDGRID_TIMESTAMP
from tests.webhooks.peers.sendgrid import SendGrid
from tests.webhooks.peers.sendgrid import pair as sendgrid_pair
from tests.webhooks.peers.standardwebhooks import StandardWebhooks
from tests.webhooks.peers.stripe import Stripe
from tests.webhooks.peers.svix import Svix

WEBHOOK = same("whsec_c2VjcmV0IHNlY3JldCBzZWNyZXQ=")
SHARED = same("whsec_or_any_other_text")
HEXED = same("00ffaa")
DISCORD = discord_pair(b"\x07" * 32)
SENDGRID = sendgrid_pair(7)
BODY = b'{"id":"evt_1","type":"ping"}'
URL = "https://example.com/hook"
EURO = {"value": 1, "currency": "EUR"}

common = pytest.mark.parametrize(
    ("peer", "prefix"), [(StandardWebhooks(), "webhook-"), (Svix(), "svix-")], ids=["std", "svix"]
)
# Python reads all of these as the number in the middle.
lax_number = pytest.mark.parametrize("form", [" {}", "{} ", "+{}", "0{}", "{:_}"])


def signed(peer: Peer, keys: Keys, body: bytes = BODY, moment: int | None = None) -> Signed:
    return peer.signs(Request(body, int(time.time()) if moment is None else moment, URL), keys)


def with_headers(delivery: Signed, changed: Mapping[str, str]) -> Signed:
    return delivery._replace(headers={**delivery.headers, **changed})


def refused(peer: Peer, delivery: Signed, keys: Keys, moment: float | None = None) -> Code:
    """The code of duly's refusal, after the library has let the delivery through."""
    now = time.time() if moment is None else moment
    assert peer.accepts(delivery, keys, int(now)), f"{peer.name} refuses this by now"
    refusal = duly_refusal(peer, delivery, keys, now)
    assert refusal is not None, f"duly lets this through as {peer.name} does"
    return refusal.code


@common
@pytest.mark.parametrize("form", [" {}", "{} ", "+{}", "0{}", "{:_}", "{}.9", "{}e0"])
def test_duly_refuses_what_standardwebhooks_lets_through_a_timestamp_written_otherwise(
    peer: Peer, prefix: str, form: str
) -> None:
    now = int(time.time())
    genuine = signed(peer, WEBHOOK, moment=now)
    delivery = with_headers(genuine, {prefix + "timestamp": form.format(now)})
    expected = {Code.MALFORMED, Code.BAD_SIGNATURE} if form == "0{}" else {Code.MALFORMED}
    assert refused(peer, delivery, WEBHOOK) in expected


@common
def test_duly_refuses_what_standardwebhooks_lets_through_an_id_that_swallows_the_timestamp(
    peer: Peer, prefix: str
) -> None:
    now = int(time.time())
    old = now - 1_000_000
    genuine = signed(peer, WEBHOOK, f"{now}.{{}}".encode(), old)
    shifted = genuine._replace(body=b"{}")
    renamed = {prefix + "id": f"msg_1.{old}", prefix + "timestamp": str(now)}
    assert refused(peer, with_headers(shifted, renamed), WEBHOOK) is Code.MALFORMED


@common
def test_duly_refuses_what_standardwebhooks_lets_through_junk_in_the_base64(
    peer: Peer, prefix: str
) -> None:
    genuine = signed(peer, WEBHOOK)
    version, signature = genuine.headers[prefix + "signature"].split(",")
    junk = f"{version},{signature[:4]}!*{signature[4:]}"
    delivery = with_headers(genuine, {prefix + "signature": junk})
    assert refused(peer, delivery, WEBHOOK) is Code.BAD_SIGNATURE


@common
@pytest.mark.parametrize("name", ["id", "timestamp", "signature"])
def test_duly_refuses_what_standardwebhooks_lets_through_a_header_sent_twice(
    peer: Peer, prefix: str, name: str
) -> None:
    genuine = signed(peer, WEBHOOK)
    twice = {(prefix + name).upper(): "1", **genuine.headers}  # the last one wins with the library
    assert refused(peer, genuine._replace(headers=twice), WEBHOOK) is Code.MALFORMED


@common
@pytest.mark.parametrize("word", ["junk", "v1,", "v1,a,b", "v2,AAAA", "v1,AAA"])
def test_duly_finds_the_good_signature_beside_a_bad_word(
    peer: Peer, prefix: str, word: str
) -> None:
    # On some of these words the library gives up; on the others both go on.
    genuine = signed(peer, WEBHOOK)
    both = f"{word} {genuine.headers[prefix + 'signature']}"
    delivery = with_headers(genuine, {prefix + "signature": both})
    assert duly_refusal(peer, delivery, WEBHOOK, time.time()) is None


@pytest.mark.parametrize(
    ("peer", "keys"), [(Stripe(), SHARED), (HubSpotV3(), SHARED)], ids=["stripe", "hubspot"]
)
def test_duly_refuses_what_stripe_and_hubspot_let_through_a_time_in_the_future(
    peer: Peer, keys: Keys
) -> None:
    delivery = signed(peer, keys, moment=int(time.time()) + 86_400)
    assert refused(peer, delivery, keys) is Code.STALE_TIMESTAMP


def test_duly_knows_an_event_by_its_body_where_stripes_id_has_a_zero_byte() -> None:
    # PostgreSQL cannot store such an id.
    delivery = signed(Stripe(), SHARED, b'{"id":"evt_\\u0000","object":"event","type":"ping"}')
    header = delivery.headers["Stripe-Signature"]
    theirs = stripe.Webhook.construct_event(delivery.body, header, SHARED.verifying)
    assert theirs.id == "evt_\0"
    ours = duly.verify("stripe", delivery.headers, delivery.body, SHARED.verifying)
    assert ours.id.startswith("body_")


@lax_number
def test_duly_refuses_what_stripe_lets_through_a_timestamp_written_otherwise(form: str) -> None:
    now = int(time.time())
    genuine = signed(Stripe(), SHARED, moment=now)
    header = genuine.headers["Stripe-Signature"].replace(str(now), form.format(now), 1)
    delivery = with_headers(genuine, {"Stripe-Signature": header})
    assert refused(Stripe(), delivery, SHARED) in {Code.MALFORMED, Code.BAD_SIGNATURE}


@pytest.mark.parametrize("addition", [",t=1", "=junk"])
def test_duly_refuses_what_stripe_lets_through_words_behind_the_signature(addition: str) -> None:
    genuine = signed(Stripe(), SHARED)
    header = genuine.headers["Stripe-Signature"] + addition
    delivery = with_headers(genuine, {"Stripe-Signature": header})
    assert refused(Stripe(), delivery, SHARED) in {Code.MALFORMED, Code.BAD_SIGNATURE}


@lax_number
def test_duly_refuses_what_paddle_lets_through_a_timestamp_written_otherwise(form: str) -> None:
    now = int(time.time())
    genuine = signed(Paddle(), SHARED, moment=now)
    header = genuine.headers[PADDLE].replace(str(now), form.format(now), 1)
    delivery = with_headers(genuine, {PADDLE: header})
    assert refused(Paddle(), delivery, SHARED) in {Code.MALFORMED, Code.BAD_SIGNATURE}


def test_duly_refuses_what_paddle_lets_through_two_timestamps() -> None:
    genuine = signed(Paddle(), SHARED)
    delivery = with_headers(genuine, {PADDLE: "ts=1;" + genuine.headers[PADDLE]})
    assert refused(Paddle(), delivery, SHARED) is Code.MALFORMED


def test_duly_passes_over_a_signature_of_a_later_version_where_paddle_gives_up() -> None:
    genuine = signed(Paddle(), SHARED)
    delivery = with_headers(genuine, {PADDLE: genuine.headers[PADDLE] + ";h2=00"})
    with pytest.raises(ValueError, match="Unrecognized"):
        Paddle().accepts(delivery, SHARED, 0)
    assert duly_refusal(Paddle(), delivery, SHARED, time.time()) is None


@pytest.mark.parametrize("peer", [HubSpotV1(), HubSpotV2()], ids=["v1", "v2"])
def test_duly_refuses_what_hubspot_lets_through_nul_in_a_hash_that_can_be_continued(
    peer: Peer,
) -> None:
    assert refused(peer, signed(peer, SHARED, b"[]\0"), SHARED) is Code.BAD_SIGNATURE


@pytest.mark.parametrize(
    ("peer", "keys", "days"),
    [(Discord(), DISCORD, 1), (SendGrid(), SENDGRID, 2)],
    ids=["discord", "sendgrid"],
)
def test_duly_refuses_what_discord_and_sendgrid_let_through_a_delivery_of_another_day(
    peer: Peer, keys: Keys, days: int
) -> None:
    now = time.time()
    delivery = signed(peer, keys, moment=int(now) - days * 86_400)
    assert refused(peer, delivery, keys, now) is Code.STALE_TIMESTAMP


@pytest.mark.parametrize(
    ("peer", "keys", "header"),
    [(Discord(), DISCORD, TIMESTAMP), (SendGrid(), SENDGRID, SENDGRID_TIMESTAMP)],
    ids=["discord", "sendgrid"],
)
@pytest.mark.parametrize(("by", "code"), [(1, Code.MALFORMED), (-1, Code.STALE_TIMESTAMP)])
def test_duly_refuses_what_discord_and_sendgrid_let_through_a_body_shifted_against_the_time(
    peer: Peer, keys: Keys, header: str, by: int, code: Code
) -> None:
    genuine = signed(peer, keys)
    whole = genuine.headers[header].encode() + genuine.body
    border = len(genuine.headers[header]) + by
    shifted = genuine._replace(body=whole[border:])
    delivery = with_headers(shifted, {header: whole[:border].decode()})
    assert refused(peer, delivery, keys) is code


def test_duly_refuses_what_discord_lets_through_spaces_in_the_hex() -> None:
    genuine = signed(Discord(), DISCORD)
    spaced = " ".join(genuine.headers[SIGNATURE][place : place + 2] for place in range(0, 128, 2))
    delivery = with_headers(genuine, {SIGNATURE: spaced})
    assert refused(Discord(), delivery, DISCORD) is Code.BAD_SIGNATURE


def test_duly_refuses_what_sendgrid_lets_through_junk_in_the_base64() -> None:
    genuine = signed(SendGrid(), SENDGRID)
    junk = "!*" + genuine.headers[SENDGRID_SIGNATURE]
    delivery = with_headers(genuine, {SENDGRID_SIGNATURE: junk})
    assert refused(SendGrid(), delivery, SENDGRID) is Code.BAD_SIGNATURE


def test_duly_refuses_what_gidgethub_lets_through_sha1_in_the_place_of_sha256() -> None:
    older = signed(GitHubSha1(), SHARED).headers["X-Hub-Signature"]
    delivery = with_headers(signed(GitHub(), SHARED), {"X-Hub-Signature-256": older})
    assert refused(GitHub(), delivery, SHARED) is Code.MALFORMED


def test_duly_refuses_what_adyen_lets_through_a_forged_second_item() -> None:
    peer = AdyenNotification()
    genuine = signed(peer, HEXED, notification({"amount": EURO}))
    whole = json.loads(genuine.body)
    forged = {**item_of(genuine.body), "pspReference": "forged"}
    whole["notificationItems"].append({"NotificationRequestItem": forged})
    delivery = genuine._replace(body=json.dumps(whole).encode())
    assert refused(peer, delivery, HEXED) is Code.BAD_SIGNATURE


def test_duly_refuses_what_adyen_lets_through_a_signed_field_named_twice() -> None:
    peer = AdyenNotification()
    item = {"pspReference": "p_1", "amount": EURO}
    genuine = signed(peer, HEXED, notification(item))
    twice = genuine.body.replace(b'"pspReference"', b'"pspReference":"forged","pspReference"')
    assert refused(peer, genuine._replace(body=twice), HEXED) is Code.MALFORMED


def test_duly_refuses_what_adyen_lets_through_a_text_moved_from_one_field_to_the_next() -> None:
    peer = AdyenNotification()
    item = {"merchantAccountCode": "Shop", "merchantReference": "a:b", "amount": EURO}
    genuine = signed(peer, HEXED, notification(item))
    assert duly_refusal(peer, genuine, HEXED, time.time()) is None
    moved = genuine.body.replace(b'"Shop"', b'"Shop:a"').replace(b'"a:b"', b'"b"')
    assert refused(peer, genuine._replace(body=moved), HEXED) is Code.MALFORMED


def test_a_repeated_header_of_a_real_request_is_refused_as_pairs_too() -> None:
    genuine = signed(StandardWebhooks(), WEBHOOK)
    pairs = [*genuine.headers.items(), ("webhook-id", "msg_2")]
    with pytest.raises(Rejected, match="more than once"):
        duly.verify("standard-webhooks", pairs, genuine.body, WEBHOOK.verifying)
