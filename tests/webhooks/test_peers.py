"""duly and the providers' own libraries agree, whatever is sent.

Hypothesis makes bodies, secrets, times and URLs. DULY_LONG=1 looks much longer. What duly refuses
on purpose though a library lets it through is in test_peer_differences.py.
"""

import json
import time

import pytest
import stripe
from hypothesis import assume, example, given
from hypothesis import strategies as st

import duly
from duly.webhooks import provider_names
from tests.webhooks.peers import PEERS, WITHOUT_A_PEER
from tests.webhooks.peers.peer import (
    SETTINGS,
    TEXT_SECRETS,
    TEXTS,
    URLS,
    Peer,
    Request,
    duly_accepts,
    duly_signs,
    moment_for,
)
from tests.webhooks.peers.svix import Svix
from tests.webhooks.peers.twilio import TwilioForm, TwilioJson, TwilioSharedKey

each_peer = pytest.mark.parametrize("peer", PEERS, ids=[peer.name for peer in PEERS])
url_signing = pytest.mark.parametrize(
    "peer",
    [peer for peer in PEERS if peer.signs_the_url],
    ids=[peer.name for peer in PEERS if peer.signs_the_url],
)
# Until the year 2242; a library that reads the clock is given one of the last minutes instead.
MOMENTS = st.integers(0, 2**33)
PORTS = st.sampled_from(["", ":443", ":80", ":8443"])


def request(data: st.DataObject, peer: Peer) -> Request:
    """Something to send."""
    body = data.draw(peer.bodies, "body")
    moment = moment_for(peer, data.draw(MOMENTS, "moment"))
    url = data.draw(URLS, "url") if peer.signs_the_url else "https://example.com/"
    return Request(body, moment, url)


def flipped(body: bytes, bit: int) -> bytes:
    """The body with one bit turned over."""
    place, within = divmod(bit % (len(body) * 8), 8)
    return body[:place] + bytes([body[place] ^ 1 << within]) + body[place + 1 :]


def test_every_provider_has_a_peer_or_is_known_to_have_none() -> None:
    assert {peer.provider for peer in PEERS} | WITHOUT_A_PEER == set(provider_names())


@each_peer
@given(data=st.data())
@SETTINGS
def test_what_the_library_signs_duly_verifies(peer: Peer, data: st.DataObject) -> None:
    sent, keys = request(data, peer), data.draw(peer.keys, "keys")
    delivery = peer.signs(sent, keys)
    # Some cannot sign: that the signature made in their stead is right, they say themselves.
    assert peer.accepts(delivery, keys, sent.moment)
    assert duly_accepts(peer, delivery, keys, sent.moment)


@each_peer
@given(data=st.data())
@SETTINGS
def test_what_duly_signs_the_library_verifies(peer: Peer, data: st.DataObject) -> None:
    sent, keys = request(data, peer), data.draw(peer.keys, "keys")
    delivery = duly_signs(peer, sent, keys)
    assert peer.accepts(delivery, keys, sent.moment)
    assert duly_accepts(peer, delivery, keys, sent.moment)


@each_peer
@given(data=st.data(), bit=st.integers(0, 2**16))
@SETTINGS
def test_one_flipped_bit_and_both_refuse(peer: Peer, data: st.DataObject, bit: int) -> None:
    sent, keys = request(data, peer), data.draw(peer.keys, "keys")
    for genuine in (peer.signs(sent, keys), duly_signs(peer, sent, keys)):
        assume(genuine.body)
        tampered = genuine._replace(body=flipped(genuine.body, bit))
        assume(peer.covered(tampered) != peer.covered(genuine))
        assert not peer.accepts(tampered, keys, sent.moment)
        assert not duly_accepts(peer, tampered, keys, sent.moment)


@each_peer
@given(data=st.data())
@SETTINGS
def test_a_wrong_secret_and_both_refuse(peer: Peer, data: st.DataObject) -> None:
    sent = request(data, peer)
    keys, others = data.draw(peer.keys, "keys"), data.draw(peer.keys, "other keys")
    assume(keys != others)
    for delivery in (peer.signs(sent, keys), duly_signs(peer, sent, keys)):
        assert not peer.accepts(delivery, others, sent.moment)
        assert not duly_accepts(peer, delivery, others, sent.moment)


@each_peer
@given(data=st.data())
@SETTINGS
def test_another_body_and_both_refuse(peer: Peer, data: st.DataObject) -> None:
    sent, keys = request(data, peer), data.draw(peer.keys, "keys")
    other = data.draw(st.one_of(st.just(b""), peer.bodies), "other body")
    for genuine in (peer.signs(sent, keys), duly_signs(peer, sent, keys)):
        tampered = genuine._replace(body=other)
        assume(peer.covered(tampered) != peer.covered(genuine))
        assert not peer.accepts(tampered, keys, sent.moment)
        assert not duly_accepts(peer, tampered, keys, sent.moment)


@url_signing
@given(data=st.data())
@SETTINGS
def test_another_host_and_both_refuse(peer: Peer, data: st.DataObject) -> None:
    sent, keys = request(data, peer), data.draw(peer.keys, "keys")
    for genuine in (peer.signs(sent, keys), duly_signs(peer, sent, keys)):
        assert genuine.url is not None
        moved = genuine._replace(url=genuine.url.replace("://", "://other-", 1))
        assert not peer.accepts(moved, keys, sent.moment)
        assert not duly_accepts(peer, moved, keys, sent.moment)


@pytest.mark.parametrize("peer", [TwilioForm(), TwilioSharedKey(), TwilioJson()])
@given(data=st.data(), signed=PORTS, seen=PORTS, scheme=st.sampled_from(["https", "http"]))
@SETTINGS
def test_twilio_and_duly_forgive_the_same_ports(
    peer: Peer, data: st.DataObject, signed: str, seen: str, scheme: str
) -> None:
    body, keys = data.draw(peer.bodies, "body"), data.draw(peer.keys, "keys")
    delivery = peer.signs(Request(body, 0, f"{scheme}://example.com{signed}/hook?a=1"), keys)
    assert delivery.url is not None
    seen_url = delivery.url.replace(f"example.com{signed}/", f"example.com{seen}/")
    arrived = delivery._replace(url=seen_url)
    assert duly_accepts(peer, arrived, keys, 0) == peer.accepts(arrived, keys, 0)


@given(data=st.data())
@SETTINGS
def test_svix_is_verified_under_the_common_header_names_too(data: st.DataObject) -> None:
    peer = Svix()
    sent, keys = request(data, peer), data.draw(peer.keys, "keys")
    signed = peer.signs(sent, keys)
    common = {name.replace("svix-", "webhook-"): value for name, value in signed.headers.items()}
    delivery = signed._replace(headers=common)
    assert peer.accepts(delivery, keys, sent.moment)
    assert duly_accepts(peer, delivery, keys, sent.moment)


# Not a zero byte, which no id may have: see test_peer_differences.py.
STORABLE = TEXTS.filter(lambda text: "\0" not in text)


@given(secret=TEXT_SECRETS, identifier=STORABLE, kind=TEXTS)
@example(secret="0", identifier="", kind="\0")
@SETTINGS
def test_stripe_makes_the_same_event_of_what_duly_signs(
    secret: str, identifier: str, kind: str
) -> None:
    event = {"id": f"evt_{identifier}", "object": "event", "type": kind or "ping", "created": 1}
    delivery = duly.sign("stripe", json.dumps(event).encode(), secret, now=time.time())
    header = delivery.headers["Stripe-Signature"]
    theirs = stripe.Webhook.construct_event(delivery.body, header, secret)
    ours = duly.verify("stripe", delivery.headers, delivery.body, secret)
    assert (ours.id, ours.type) == (theirs.id, theirs.type)


def test_the_flipped_bit_is_one_bit() -> None:
    assert [flipped(b"ab", bit) for bit in (0, 7, 8, 16)] == [b"`b", b"\xe1b", b"ac", b"`b"]
