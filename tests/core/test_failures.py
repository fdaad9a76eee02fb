"""Promises of what is kept of a failed run: it says why, in bounds, and shows no secret."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as some

from duly.core.errors import FOR_RECEIVERS
from duly.core.failures import Failure, decode_failure, exception_record, reason_record, shorten
from duly.core.redaction import MARK, REACH
from duly.core.retry import Dead
from duly.core.validation import checked_clock
from duly.errors import UsageError
from tests.support.growth import CONSTANT, growth

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

KEY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ+/"
PEM = (
    f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{KEY}\n"
    "-----END RSA PRIVATE KEY-----"
)
# The parts of a message around a secret: whatever a rule takes for the edge of one, and more.
AROUND = some.text(some.sampled_from("aé🐍 \n\t\"'\\:=@/&,;-_\0\ud800")) | some.sampled_from(
    [
        "password=",
        "Bearer ",
        "://user:",
        "token",
        "secret: ",
        "-----BEGIN PRIVATE KEY-----",
        "whsec_",
    ]
)
SECRETS = some.text(
    some.characters(exclude_characters="[]") | some.sampled_from("ab \n\"'\\%+é\0\ud800"),
    min_size=4,
    max_size=40,
).filter(lambda secret: bool(secret.strip()))


def kept(problem: BaseException, *secrets: str) -> Failure:
    failure = decode_failure(exception_record(problem, 3, secrets))
    assert failure is not None
    return failure


def trace(problem: BaseException, *secrets: str) -> str:
    text = kept(problem, *secrets).traceback
    assert text is not None
    return text


def raised(work: Callable[[], object]) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - whatever it is
        work()
    return caught.value


def after(problem: BaseException, frames: int) -> BaseException:
    """The same, as if it had been caught further inside."""
    place: TracebackType | None = problem.__traceback__
    for _ in range(frames):
        assert place is not None
        place = place.tb_next
    return problem.with_traceback(place)


def divided() -> float:
    return 1 / 0


def test_a_failure_keeps_its_type_message_traceback_and_attempt() -> None:
    failure = kept(raised(divided))
    assert (failure.type, failure.message, failure.attempt) == (
        "ZeroDivisionError",
        "division by zero",
        3,
    )
    assert failure.traceback is not None
    assert "in divided\n    return 1 / 0\n" in failure.traceback
    assert failure.traceback.endswith("\nZeroDivisionError: division by zero\n")


def test_it_is_stored_as_a_json_object_with_four_fields() -> None:
    assert list(json.loads(exception_record(ValueError("é"), 1))) == [
        "type",
        "message",
        "traceback",
        "attempt",
    ]
    assert json.loads(reason_record("too slow", 2, "timeout")) == {
        "type": "timeout",
        "message": "too slow",
        "traceback": None,
        "attempt": 2,
    }


def failed_because(first: Exception) -> Exception:
    """An error whose chain began with another."""
    middle, last = KeyError("order"), ValueError("it cannot be booked")
    middle.__context__, last.__cause__ = first, middle
    return last


def test_the_exception_that_began_a_chain_is_kept_as_the_cause() -> None:
    first = RuntimeError("a future attached to a different loop")
    assert kept(first).cause is None
    told = kept(failed_because(first))
    assert told.message == "it cannot be booked"
    assert told.cause == "RuntimeError: a future attached to a different loop"
    assert kept(failed_because(OSError())).cause == "OSError"


def test_a_cause_that_the_message_repeats_is_not_kept() -> None:
    outer = RuntimeError("the server said: refused")
    outer.__cause__ = OSError("refused\nIs it running?")
    assert kept(outer).cause is None


def test_a_circle_of_causes_has_an_end() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert kept(one).cause == "ValueError: two"


def test_a_cause_shows_no_secret_and_is_bounded() -> None:
    told = kept(failed_because(OSError(f"Bearer {KEY} " + "x" * 5_000))).cause
    assert told is not None
    assert KEY not in told
    assert MARK in told
    assert len(told) <= 1_000


def test_a_record_without_a_cause_is_read_as_one() -> None:
    assert decode_failure(b'{"type":"A","message":"b","traceback":null,"attempt":1}') == Failure(
        "A", "b", None, 1
    )


def test_what_a_receiver_should_answer_is_no_part_of_why_a_job_failed() -> None:
    problem = OSError("gone")
    problem.add_note(FOR_RECEIVERS)
    problem.add_note("after the third try")
    text = trace(problem)
    assert FOR_RECEIVERS not in text
    assert "after the third try" in text


@given(some.text(max_size=400), some.integers(20, 300))
def test_a_shortened_text_is_one_line_and_keeps_both_ends(text: str, most: int) -> None:
    whole, told = " ".join(text.split()), shorten(text, most)
    assert len(told) <= most
    assert "\n" not in told
    if told != whole:
        head, _, tail = told.partition(" … ")
        assert whole.startswith(head)
        assert whole.endswith(tail)


def test_types_have_the_names_they_are_imported_by() -> None:
    class Local(Exception):
        __module__ = "shop.orders"

    assert kept(Local()).type.startswith("shop.orders.test_types_have_the_names")
    assert kept(Dead("gone")).type == "duly.Dead"
    assert kept(UsageError("x")).type == "duly.errors.UsageError"
    assert decode_failure(reason_record("gone", 1)) == Failure("duly.Dead", "gone", None, 1)


def test_the_frames_of_duly_before_the_handler_are_left_out() -> None:
    clock = checked_clock(divided)
    assert clock is not None
    problem = raised(clock)
    assert "validation.py" in trace(problem)  # this test called it, as a handler might
    text = trace(after(problem, 1))
    assert "validation.py" not in text
    assert "in divided" in text


def test_the_frames_of_duly_stay_where_the_handler_called_it_or_there_are_no_others() -> None:
    def handler() -> None:
        checked_clock(5)

    called = raised(handler)
    assert "in handler" in trace(called)
    assert "validation.py" in trace(called)
    assert "validation.py" in trace(after(called, 2))


def test_causes_contexts_and_notes_are_told_in_the_order_they_happened() -> None:
    def handler() -> None:
        try:
            try:
                divided()
            except ZeroDivisionError as problem:
                raise KeyError("first") from problem
        except KeyError:
            last = ValueError("second")
            last.add_note("in the order 42")
            raise last  # noqa: B904 - the context is what is looked for

    text = trace(raised(handler))
    told = [
        "ZeroDivisionError: division",
        "direct cause of",
        "KeyError: 'first'",
        "During handling",
        "ValueError: second",
        "in the order 42",
    ]
    assert sorted(told, key=text.index) == told


def test_a_suppressed_context_is_not_told() -> None:
    def handler() -> None:
        try:
            divided()
        except ZeroDivisionError:
            raise ValueError("second") from None

    assert "ZeroDivisionError" not in trace(raised(handler))


def test_a_circle_of_causes_ends() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__context__, other.__context__ = other, one
    assert trace(one).count("ValueError: one") == 1


def test_a_long_chain_keeps_its_latest_exceptions() -> None:
    problem = ValueError("0")
    for number in range(1, 5_000):
        later = ValueError(str(number))
        later.__cause__ = problem
        problem = later
    text = trace(problem)
    assert text.startswith("[… earlier exceptions left out …]")
    assert text.endswith("ValueError: 4998\n\nThe above exception was the direct cause of the "
                         "following exception:\n\nValueError: 4999\n")  # fmt: skip


def test_a_huge_group_shows_its_first_members_quickly() -> None:
    def huge(members: int) -> Exception:
        deep: Exception = ExceptionGroup("inner", [ValueError("x" * 9_000)] * members)
        for _ in range(members // 40):
            deep = ExceptionGroup("outer", [deep, KeyError("beside")])
        return ExceptionGroup("all", [ValueError("first"), deep] + [KeyError(1)] * members)

    assert growth(huge, trace, 20_000) < CONSTANT
    text = trace(huge(20_000))
    assert "  +---- 1 of 20,002\n  | ValueError: first\n" in text
    assert "further exceptions left out" in text
    assert len(text) <= 8_000


def test_a_deep_recursion_keeps_its_first_and_last_frames() -> None:
    def even(number: int) -> int:
        return odd(number - 1)

    def odd(number: int) -> int:
        return divided() if number < 0 else even(number - 1)  # type: ignore[return-value]

    text = trace(raised(lambda: even(400)))
    assert "in raised\n" in text
    assert "frames left out …]\n" in text
    assert text.endswith("ZeroDivisionError: division by zero\n")
    assert len(text) <= 8_000


def test_a_long_message_keeps_both_ends_and_says_how_much_is_missing() -> None:
    failure = kept(ValueError("begin" + "-" * 1_000_000 + "end"))
    assert failure.message.startswith("begin---")
    assert failure.message.endswith("---end")
    assert "\n[… 998,108 characters left out …]\n" in failure.message
    assert len(failure.message) <= 2_000


def test_a_message_is_never_too_long_for_its_marks() -> None:
    for said in ("abcd " * 400, "." * 90_000 + "abcd " * 400, "abcd " * 400 + "." * 90_000):
        failure = kept(ValueError(said), "abcd")
        assert len(failure.message) <= 2_000
        assert "abcd" not in failure.message


@pytest.mark.parametrize("ending", [ValueError("no"), SystemExit(1), KeyboardInterrupt(), "\ud800"])
def test_an_exception_that_cannot_tell_its_text_is_recorded_all_the_same(ending: Any) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            if isinstance(ending, BaseException):
                raise ending
            return str(ending) + "\0"

    failure = kept(Odd())
    assert failure.message in (
        f"(its text cannot be read: {type(ending).__name__})",
        "\\ud800\\x00",
    )
    assert failure.message in str(failure.traceback)


def test_an_exception_whose_class_lies_is_recorded_all_the_same() -> None:
    class Text(str):
        def encode(self, *_: object) -> bytes:
            raise AssertionError

    class Odd(Exception):
        __module__ = None  # type: ignore[assignment]
        __notes__ = 7  # type: ignore[assignment]

        def __str__(self) -> str:
            return Text("odd")

        @property
        def __cause__(self) -> BaseException:  # type: ignore[override]
            raise RuntimeError("lies")

    failure = kept(Odd())
    assert (failure.type, failure.message) == ("Odd", "odd")
    assert failure.traceback == "The traceback could not be read: RuntimeError\n"


@pytest.mark.parametrize(
    ("said", "secret", "left"),
    [
        ("key whsec_MfKQ9r8GKYqr+/= bad", "MfKQ", "key [redacted] bad"),
        ("whpk_MfKQ9r8GKYqr", "MfKQ", MARK),
        ("sk_live_4eC39Hq, next", "4eC39", "[redacted], next"),
        ("('sk_test_4eC39Hq',)", "4eC39", "('[redacted]',)"),
        ("rk_live_4eC39Hq", "4eC39", MARK),
        ("AKIAIOSFODNN7EXAMPLE", "IOSF", MARK),
        ("ghp_16C7e42F292c6912E7710c", "16C7", MARK),
        ("github_pat_11ABCDEFG0_abcdefgh", "11ABC", MARK),
        ("Authorization: Bearer abc.def-1\nnext", "abc.def", "Authorization: [redacted]\nnext"),
        ("got 'bearer abc.def-1'", "abc.def", "got 'bearer [redacted]'"),
        ("b'Basic dXNlcjpwYXNz'", "dXNl", "b'Basic [redacted]'"),
        ("authorization: Token abcdef", "abcdef", "authorization: [redacted]"),
        ("to postgresql://u:hunter2@db/x", "hunter2", "to postgresql://u:[redacted]@db/x"),
        (
            "amqp://u:hun/t@er2@q,amqp://v:hunter3@r",
            "hunt",
            "amqp://u:[redacted]@q,amqp://v:[redacted]@r",
        ),
        ("redis://:12345@h:6379/0", "12345", "redis://:[redacted]@h:6379/0"),
        ("login?password=hunter2&next=1", "hunter2", "login?password=[redacted]&next=1"),
        ("DB_PASSWORD=hunter2", "hunter2", "DB_PASSWORD=[redacted]"),
        ("client_secret='hun ter2'", "hun ter2", "client_secret='[redacted]'"),
        ("token: hunter2", "hunter2", "token: [redacted]"),
        ("api_key=hunter2 api-key=hunter2", "hunter2", "api_key=[redacted] api-key=[redacted]"),
        ('{"password": "hun\\"ter2", "a": 1}', "ter2", '{"password": "[redacted]", "a": 1}'),
        ("{'token': b'hunter2', 'a': 1}", "hunter2", "{'token': b'[redacted]', 'a': 1}"),
        (
            r'"{\"secret\": \"hunter2\", \"a\": 1}"',
            "hunter2",
            r'"{\"secret\": \"[redacted]\", \"a\": 1}"',
        ),
        (json.dumps('{"token": "hun\\"ter2"}'), "ter2", r'"{\"token\": \"[redacted]\"}"'),
        (f"bad key {PEM} given", KEY, "bad key [redacted] given"),
        (f"bad key {PEM!r} given", KEY, "bad key '[redacted]' given"),
        (f"cut {PEM[:90]}", KEY[:20], "cut [redacted]"),
    ],
)
def test_what_looks_like_a_secret_is_redacted(said: str, secret: str, left: str) -> None:
    assert secret in said
    failure = kept(ValueError(said))
    assert failure.message == left
    assert secret not in str(failure.traceback).partition("ValueError: ")[2]
    assert decode_failure(reason_record(said, 1)) == Failure("duly.Dead", left, None, 1)


@pytest.mark.parametrize(
    "said",
    [
        "Basic authentication failed: bearer token missing",
        "GET http://localhost:8080/users/me@example.com said 500",
        "max_tokens=4096, 3 passwords",
        "no order at https://shop.example/orders/7: task-management-of-the-year",
        'if key.startswith("-----BEGIN PUBLIC KEY-----")',
    ],
)
def test_what_only_speaks_of_secrets_is_kept(said: str) -> None:
    assert kept(ValueError(said)).message == said


def test_a_secret_is_redacted_however_it_is_written() -> None:
    secret = "pä\"ss/ \n'wörd"
    written = json.dumps(secret), json.dumps(secret, ensure_ascii=False)
    for said in (secret, repr(secret), *written, KeyError(secret)):
        assert "rd" not in kept(ValueError(said), secret + "\n").message
    assert kept(ValueError("?q=p%C3%A4%22ss%2F+%0A%27w%C3%B6rd&x=1"), secret).message == (
        "?q=[redacted]&x=1"
    )


def test_secrets_are_redacted_in_types_notes_members_causes_and_source_lines() -> None:
    def handler() -> None:
        open_sesame = "hocus-pocus"
        inner = type("hocus-pocus", (Exception,), {})(open_sesame)
        inner.add_note("hocus-pocus\nline")
        raise ExceptionGroup(open_sesame, [inner]) from inner

    problem = raised(handler)
    stored = exception_record(problem, 1, ["hocus-pocus", "hocus-pocus\nline"])
    assert b"hocus" not in stored
    assert stored.count(MARK.encode()) >= 6
    assert problem.__cause__ is not None
    assert kept(problem.__cause__, "hocus-pocus").type == f"{__name__}.{MARK}"


def test_a_secret_of_many_lines_is_redacted_in_a_group() -> None:
    secret = "first line\nsecond line"
    group = ExceptionGroup("all", [ValueError(f"<{secret}>")])
    assert "  | ValueError: <[redacted]>\n" in trace(group, secret)


def test_values_too_short_to_be_secrets_hide_nothing() -> None:
    assert kept(ValueError("a abc     c"), "", "a", "abc", "     ").message == "a abc     c"


@pytest.mark.parametrize("secret", ["hunter22", "hunter22" * 2_100, "password=" + "hunter" * 2_000])
def test_no_half_of_a_secret_survives_where_a_text_is_cut(secret: str) -> None:
    known = () if secret.startswith("password=") else (secret,)
    for edge in (500, 1_400, REACH + 1_400):
        for offset in (2, len(secret) - 2):
            filler = "." * max(edge - offset, 0)
            for said in (filler + secret + "." * 60_000, "." * 60_000 + secret + filler):
                assert b"nter" not in reason_record(said, 1, secrets=known)


def test_no_half_of_a_secret_survives_where_a_traceback_is_cut() -> None:
    for length in range(1_000, 1_090, 9):  # five notes: one of the secrets is at each cut
        problem = ValueError("." * length)
        problem.__notes__ = [("." * 9 + "hunter22") * 110] * 5
        stored = exception_record(problem, 1, ["hunter22"])
        assert b"characters left out" in stored
        assert b"nter" not in stored
        assert 7_900 < len(trace(problem, "hunter22")) <= 8_000


def test_a_text_full_of_secrets_shows_no_half_of_one_where_its_window_ends() -> None:
    secret = "hunter22" * 50
    for size in (40_000, 40_100, 40_200):
        said = f"{secret}-" * (size // 401) + "." * (size % 401) + f"-{secret}" * 100
        assert "nter" not in kept(ValueError(said), secret).message


@pytest.mark.parametrize(
    "unit",
    ["-----BEGIN PRIVATE KEY-----", "://a:", "://a:@", "eyJ", 'password="', "password=\\",
     "Bearer ", "basic" + " " * 999, "\ud800", "\0", "sk_live_", "authorization:", "api_",
     'token:\\"\\', "x"],
)  # fmt: skip
def test_a_message_of_a_megabyte_costs_no_more_than_a_quarter_of_it_whatever_it_is_made_of(
    unit: str,
) -> None:
    def problem(size: int) -> Exception:
        return ValueError(unit * (size // len(unit)))

    def describe(error: Exception) -> None:
        exception_record(error, 1, ["xxxx", "hunter22"])

    assert growth(problem, describe, 1_000_000) < CONSTANT


@given(some.lists(some.tuples(AROUND, SECRETS), min_size=1, max_size=3), AROUND, some.booleans())
@example([("", "a\nbc")], "", True)
@example([("password=", "it's"), ("", "'x&y")], "", False)
def test_no_given_secret_is_ever_shown(
    parts: list[tuple[str, str]], end: str, grouped: bool
) -> None:
    secrets = [secret for _, secret in parts]
    problem: Exception = ValueError("".join(before + secret for before, secret in parts) + end)
    if grouped:
        problem = ExceptionGroup("all", [problem])
    failure = kept(problem, *secrets)
    frame = f"all (1 sub-exception)  +---- 1 of 1  | ValueError: {MARK}"
    assume(not any(secret.strip() in frame for secret in secrets))
    for secret in secrets:
        assert secret not in failure.message
        assert secret not in str(failure.traceback)


@given(some.text(some.characters()), some.integers(1, 10_000))
def test_whatever_is_recorded_is_read_back_as_text_that_can_be_stored(
    said: str, attempt: int
) -> None:
    for stored in (exception_record(ValueError(said), attempt), reason_record(said, attempt)):
        failure = decode_failure(memoryview(stored))
        assert failure is not None
        assert failure.attempt == attempt
        assert b"\\u0000" not in stored.replace(b"\\\\", b"")
        assert "\0" not in failure.message
        failure.message.encode()


@pytest.mark.parametrize(
    "stored", [b"", b"\xff", b"[]", b"7", b'{"type":"x"}', b"[" * 9_999, b'"\\ud800"',
               b'{"type":"x","message":"y","traceback":null,"attempt":Infinity}']
)  # fmt: skip
def test_a_record_that_somebody_else_wrote_is_shown_and_breaks_nothing(stored: bytes) -> None:
    failure = decode_failure(stored)
    assert failure is not None
    assert (failure.type, failure.attempt) == ("unknown", 0)
    assert failure.message[:1_000] == stored[:1_000].decode("utf-8", "backslashreplace")


def test_no_record_is_no_failure() -> None:
    assert decode_failure(None) is None
