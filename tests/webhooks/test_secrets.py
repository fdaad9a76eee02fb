"""Secrets: several at once, each with a name and an end, and none that could not work."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import duly
from duly import Secret, Source
from duly.errors import Rejected, UsageError
from duly.webhooks import Code, Hmac, Provider
from tests.support.bad_values import NAIVE, ODD
from tests.webhooks.genuine import (
    ASYMMETRIC,
    NOW,
    PROVIDERS,
    URL,
    delivered,
    keys,
    source,
    verified,
)

MOMENT = datetime.fromtimestamp(NOW, UTC)
# Words of advice: a message without any of them only complains.
ADVICE = re.compile(r"\b(must|use|pass|check|copy|install)\b")


def both(provider: str, **ends: datetime | None) -> Source:
    """A source in the middle of a rotation: its secrets are made from their names."""
    return Source(
        provider,
        [
            Secret(keys(provider, name).receiver, name=name, not_after=end)
            for name, end in ends.items()
        ],
        url=URL,
    )


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_secret_that_matched_is_named(provider: str) -> None:
    rotating = both(provider, old=None, new=None)
    for name in ("old", "new"):
        assert verified(rotating, delivered(provider, seed=name)).secret == name


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_rotation_from_old_to_new_rejects_nothing_genuine_and_ends(provider: str) -> None:
    end = MOMENT + timedelta(hours=1)
    rotating, after = both(provider, old=end, new=None), NOW + 3601
    old, new = (delivered(provider, seed=seed) for seed in ("old", "new"))
    assert verified(source(provider, "old"), old).secret == "1"
    assert verified(rotating, old).secret == "old"
    assert verified(rotating, new).secret == "new"
    fresh = delivered(provider, seed="new", now=after)
    assert verified(rotating, fresh, now=after).secret == "new"
    with pytest.raises(Rejected) as caught:
        verified(rotating, delivered(provider, seed="old", now=after), now=after)
    assert caught.value.code is Code.BAD_SIGNATURE
    assert verified(source(provider, "new"), new).secret == "1"


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-8))])
@pytest.mark.parametrize(("seconds", "good"), [(-1, True), (0, True), (0.001, False), (1, False)])
def test_a_secret_is_good_until_its_end_and_not_after(
    seconds: float, good: bool, zone: timezone
) -> None:
    ending = Source("github", Secret("the one seed", not_after=MOMENT.astimezone(zone)))
    delivery = delivered("github")
    if good:
        assert verified(ending, delivery, now=NOW + seconds).secret == "1"
        return
    with pytest.raises(Rejected) as caught:
        verified(ending, delivery, now=NOW + seconds)
    assert caught.value.code is Code.BAD_SIGNATURE


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_expired_secret_alone_makes_a_bad_signature(provider: str) -> None:
    with pytest.raises(Rejected) as caught:
        verified(both(provider, old=MOMENT - timedelta(seconds=1)), delivered(provider, seed="old"))
    assert caught.value.code is Code.BAD_SIGNATURE
    assert caught.value.status == (401 if provider == "discord" else 403)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("s1", ["1"]),
        (b"s1", ["1"]),
        (Secret("s1"), ["1"]),
        (Secret("s1", name="mine"), ["mine"]),
        (["s1", b"s2"], ["1", "2"]),
        (("s1", Secret("s2", name="mine"), "s3"), ["1", "mine", "3"]),
        ({"old": "s1", "new": b"s2"}, ["old", "new"]),
        ({"old": Secret("s1", not_after=MOMENT)}, ["old"]),
        ((one for one in ("s1", "s2")), ["1", "2"]),
    ],
)
def test_secrets_can_be_one_or_several_or_named(given: Any, names: list[str]) -> None:
    assert [one.name for one in Source("github", given).secrets] == names


def test_a_name_in_a_mapping_keeps_the_end_of_its_secret() -> None:
    (kept,) = Source("github", {"old": Secret("s1", not_after=MOMENT, key_id="k")}).secrets
    assert (kept.name, kept.not_after, kept.key_id) == ("old", MOMENT, "k")


def test_the_same_value_under_two_names_reports_the_first() -> None:
    twice = Source("github", {"first": "the one seed", "second": "the one seed"})
    assert verified(twice, delivered("github")).secret == "first"


PEM = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----"
UNUSABLE: list[tuple[str, object]] = [
    ("stripe", None),
    ("stripe", ""),
    ("stripe", b""),
    ("stripe", []),
    ("stripe", {}),
    ("stripe", ["good", ""]),
    ("stripe", ["good", None]),
    ("stripe", {"old": "good", "new": ""}),
    ("stripe", " edged"),
    ("stripe", "edged\n"),
    ("stripe", "\tedged"),
    ("stripe", "edged\N{NO-BREAK SPACE}"),
    ("stripe", "   "),
    ("stripe", 5),
    ("stripe", True),
    ("stripe", [5]),
    ("stripe", object()),
    ("stripe", bytearray(b"mutable")),
    ("stripe", "half a pair \ud800"),
    ("standard-webhooks", "whsec_"),
    ("standard-webhooks", "whsec_not base64!"),
    ("standard-webhooks", "whsec_AAAAA"),
    ("standard-webhooks", "whpk_AAAA"),
    ("standard-webhooks", "whsk_AAAA"),
    ("standard-webhooks", PEM),
    ("standard-webhooks", keys("sendgrid").receiver.join(("-----BEGIN", "-----"))),
    ("svix", "whsec_\N{SNOWMAN}"),
    ("gitlab", "whsec_not base64!"),
    ("adyen", "not hex"),
    ("adyen", "ABC"),
    ("adyen", "AB CD"),
    ("discord", "AB" * 31),
    ("discord", "whpk_AAAA"),
    ("discord", PEM),
    ("discord", keys("sendgrid").receiver),
    ("sendgrid", "AAAA"),
    ("sendgrid", "not base64!"),
    ("sendgrid", PEM),
    ("sendgrid", b"not DER"),
    ("sendgrid", keys("discord").receiver),
    ("sendgrid", keys("sendgrid").sender),
]


@pytest.mark.parametrize(("provider", "given"), UNUSABLE)
def test_a_secret_that_cannot_work_is_refused_when_the_source_is_made(
    provider: str, given: Any
) -> None:
    with pytest.raises(UsageError, match=ADVICE):
        Source(provider, given)


@pytest.mark.parametrize("given", [["a", Secret("b", name="1")], [Secret("a", name="x")] * 2])
def test_two_secrets_of_one_name_are_refused(given: Any) -> None:
    with pytest.raises(UsageError, match="use a name of its own"):
        Source("github", given)


@pytest.mark.parametrize("end", [NAIVE, ODD, "2026-01-01", NOW, MOMENT.date(), True])
def test_an_end_without_a_time_zone_is_refused(end: Any) -> None:
    with pytest.raises(UsageError, match="must be an aware datetime"):
        Secret("value", not_after=end)


@pytest.mark.parametrize("name", ["", "x" * 101, "line\nbreak", "\0", 5, True, b"bytes"])
def test_a_name_that_no_log_could_show_is_refused(name: Any) -> None:
    with pytest.raises(UsageError, match="must be 1 to 100 printable characters"):
        Secret("value", name=name)


def test_verify_asks_for_secrets_unless_a_source_has_them() -> None:
    delivery = delivered("github")
    with pytest.raises(UsageError, match="secrets must be passed"):
        duly.verify("github", delivery.headers, delivery.body)
    with pytest.raises(UsageError, match="pass none"):
        duly.verify(source("github"), delivery.headers, delivery.body, "another")
    with pytest.raises(UsageError, match="secret must be passed"):
        duly.sign("github", b"{}")
    with pytest.raises(UsageError, match="pass none"):
        duly.sign(source("github"), b"{}", "another")


def test_equal_secrets_are_equal_and_others_are_not() -> None:
    one = Secret("value", name="a")
    assert one == Secret("value", name="a")
    assert hash(one) == hash(Secret("value", name="a"))
    assert one not in (Secret("value", name="b"), Secret("other", name="a"), "value")


def test_a_source_without_legacy_refuses_providers_that_have_nothing_else() -> None:
    old = Provider("old-school", Hmac(header="X-Sum", digest="sha1", legacy=True))
    assert Source(old, "secret").schemes
    with pytest.raises(UsageError, match="use legacy=True"):
        Source(old, "secret", legacy=False)


# Runs where `cryptography` cannot be imported, as on a machine without the extra.
WITHOUT_CRYPTOGRAPHY = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "cryptography":
            raise ModuleNotFoundError("No module named " + repr(name))

sys.meta_path.insert(0, Blocked())
import duly
from duly.webhooks import provider_named, provider_names

for name, secret, url in {shared!r}:
    signed = duly.sign(name, provider_named(name).sample, secret, now={now}, url=url)
    found = duly.verify(name, signed.headers, signed.body, secret, now={now}, url=signed.url)
    print(found.provider.name)
for name, secret in {asymmetric!r}:
    try:
        duly.Source(name, secret)
    except duly.errors.UsageError as problem:
        print(problem)
assert not any(name.partition(".")[0] == "cryptography" for name in sys.modules)
"""


def test_only_public_keys_need_the_extra_and_the_error_names_it() -> None:
    shared = [(name, keys(name).receiver, URL) for name in PROVIDERS if name not in ASYMMETRIC]
    asymmetric = [
        *((name, keys(name).receiver) for name in sorted(ASYMMETRIC)),
        ("standard-webhooks", "whpk_" + "A" * 43),
    ]
    script = WITHOUT_CRYPTOGRAPHY.format(shared=shared, asymmetric=asymmetric, now=NOW)
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[: len(shared)] == [name for name, _, _ in shared]
    problems = lines[len(shared) :]
    assert len(problems) == len(asymmetric)
    assert all("pip install '.[crypto]'" in line for line in problems)
