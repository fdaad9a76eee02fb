"""Why deliveries are rejected, for the log alone: few lines, and little work for each.

Anyone can send a bad signature, so what a rejection may cost is bounded. A diagnosis tries many
signatures; it runs on one thread, for one body of at most `DIAGNOSED` bytes at a time, at most once
a second for each source. It pauses often, ends after `BUDGET` seconds of computing, and rests
`REST` times as long as it has computed. The other deliveries share the interpreter with it: that
is what keeps their slowest hundredth as it was.

A cause is a source, the code of the rejection and the kind of the diagnosis. Its first line is
written at once, then at most one a minute, with the number of rejections left out. The sender's
reply never depends on any of this.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from duly.webhooks.delivery import Delivery
from duly.webhooks.diagnose.case import RejectedCase
from duly.webhooks.diagnose.explain import Diagnosis, diagnose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from duly.core.errors import Rejected
    from duly.webhooks.source import Source

logger = logging.getLogger("duly")
# Bytes. Twice the body is twice the work, and few events are larger.
DIAGNOSED: Final = 64 * 1024
# Seconds between two diagnoses of one source, and between two lines of one cause.
BETWEEN: Final = 1.0
PAUSE: Final = 60.0
# Seconds of computing: of one diagnosis, and at a stretch before others get the interpreter.
BUDGET: Final = 0.03
STRETCH: Final = 0.001
# How much longer than it has computed the thread rests: it takes a five-hundredth of the
# interpreter, and with its pauses others have it beside them for less than a hundredth of the time.
REST: Final = 500
# How many other sources of the application a delivery is tried with.
OTHERS: Final = 8
# Characters of a line that came from a diagnosis.
LONGEST: Final = 600
# A very short secret would be found in any word.
SHORTEST_HIDDEN: Final = 6
LARGE_BODY, NOT_DIAGNOSED, FAILED = "large_body", "not_diagnosed", "diagnosis_failed"


class Rejection(NamedTuple):
    """A delivery that was not genuine, and why it was rejected."""

    source: Source
    delivery: Delivery
    problem: Rejected


class Cause(NamedTuple):
    """What lines are counted by; every part of it is one of a few words of duly's own."""

    source: str
    code: str
    kind: str


class DiagnosisBudget:
    """Ends a diagnosis after its budget, and lets the other threads in on the way."""

    def __init__(self) -> None:
        self._begun = self._paused = time.thread_time()

    @property
    def seconds_used(self) -> float:
        """Seconds of computing so far."""
        return time.thread_time() - self._begun

    def __call__(self) -> bool:
        """Whether to go on."""
        now = time.thread_time()
        if now - self._begun > BUDGET:
            return False
        if now - self._paused > STRETCH:
            time.sleep(STRETCH)
            self._paused = time.thread_time()
        return True


class Rejections:
    """Writes the log's lines about rejected deliveries of one application in one process."""

    def __init__(
        self,
        sources: Callable[[], Iterable[Source]] = tuple,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = sources
        self._seconds = seconds
        self._begin_process()

    def _begin_process(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._waiting: Rejection | None = None
        # When a diagnosis of a source began, and until when none begins at all.
        self._begun: dict[str, float] = {}
        self._rest = 0.0
        # When each cause was logged, and how many of it were left out since.
        self._logged: dict[Cause, tuple[float, int]] = {}
        # When a source's code was last logged, and how many had no diagnosis since.
        self._seen: dict[tuple[str, str], float] = {}
        self._undiagnosed: dict[tuple[str, str], int] = {}

    def note(self, rejection: Rejection) -> None:
        """Log why, now or later; returns at once, on any thread."""
        if not logger.isEnabledFor(logging.WARNING):
            return
        if self._process != os.getpid():  # a forked child has none of its parent's threads
            self._begin_process()
        size, reason = len(rejection.delivery.body), rejection.problem.reason
        if size > DIAGNOSED:
            sentence = f"{reason} (not diagnosed: it has {size:,} bytes, more than {DIAGNOSED:,})"
            self._log_cause(rejection, Diagnosis(LARGE_BODY, sentence))
        elif not self._hand_to_thread(rejection) and not self._count_undiagnosed(rejection):
            sentence = f"{reason} (not diagnosed: another rejection was just before it)"
            self._log_cause(rejection, Diagnosis(NOT_DIAGNOSED, sentence))

    def _hand_to_thread(self, rejection: Rejection) -> bool:
        """Hand a rejection to the thread; False where it must not be diagnosed now."""
        now, name = self._seconds(), rejection.source.name
        with self._lock:
            soon = now < self._begun.get(name, now - BETWEEN) + BETWEEN
            if soon or now < self._rest or self._waiting is not None:
                return False
            self._waiting, self._begun[name] = rejection, now
            self._seen[name, rejection.problem.code.value] = now
            return self._thread is not None or self._start_thread()

    def _start_thread(self) -> bool:
        """Start the thread; False where the system has none to spare, or the process ends."""
        thread = threading.Thread(
            target=self._diagnose_waiting, name="duly-rejections", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            self._waiting = None
            return False
        self._thread = thread
        return True

    def _count_undiagnosed(self, rejection: Rejection) -> bool:
        """Count it for the next line; False where its code was not logged lately."""
        now, key = self._seconds(), (rejection.source.name, rejection.problem.code.value)
        with self._lock:
            if now - self._seen.get(key, now - PAUSE) >= PAUSE:
                return False
            self._undiagnosed[key] = self._undiagnosed.get(key, 0) + 1
        return True

    def _diagnose_waiting(self) -> None:
        """Diagnose until nothing waits."""
        while True:
            with self._lock:
                rejection, self._waiting = self._waiting, None
                if rejection is None:
                    self._thread = None
                    return
            pace = DiagnosisBudget()
            self._log_cause(rejection, self._diagnose(rejection, pace))
            with self._lock:
                self._rest = max(self._rest, self._seconds()) + REST * pace.seconds_used

    def _diagnose(self, rejection: Rejection, pace: DiagnosisBudget) -> Diagnosis:
        """What `duly.explain` would say, as far as the pace allows."""
        source, given, problem = rejection
        # No URL rather than an empty one: `app.receive` may be called without.
        delivery = Delivery(given.fields, given.body, given.url or None, given.method, given.now)
        try:
            others = [one for one in self._sources() if one is not source][:OTHERS]
            return diagnose(RejectedCase(source, delivery, problem, tuple(others)), pace)
        except Exception as failure:  # the thread must live, and no traceback may show a body
            sentence = f"{problem.reason} (its diagnosis failed: {type(failure).__name__})"
            return Diagnosis(FAILED, sentence)

    def _log_cause(self, rejection: Rejection, diagnosis: Diagnosis) -> None:
        """Write the line of a cause, or count it where that was written a moment ago."""
        now, name = self._seconds(), rejection.source.name
        cause = Cause(name, rejection.problem.code.value, diagnosis.kind)
        with self._lock:
            before = self._logged.get(cause)
            if before is not None and now - before[0] < PAUSE:
                self._logged[cause] = (before[0], before[1] + 1)
                return
            self._logged[cause] = (now, 0)
            self._seen[name, cause.code] = now
            same = 0 if before is None else before[1]
            undiagnosed = self._undiagnosed.pop((name, cause.code), 0)
        logger.warning(
            "a delivery to %s was rejected (%s, %s): %s%s", *cause,
            loggable_sentence(diagnosis.sentence, [rejection.source, *self._sources()]),
            describe_omitted(same, undiagnosed),
        )  # fmt: skip

    def close(self) -> None:
        """Wait for the thread, and log how many rejections were left out since the last lines."""
        if self._process != os.getpid():
            return
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()
        with self._lock:
            sums = dict(self._undiagnosed)
            for cause, (_, count) in self._logged.items():
                key = (cause.source, cause.code)
                sums[key] = sums.get(key, 0) + count
            self._logged.clear()
            self._undiagnosed.clear()
            self._seen.clear()
        for (name, code), count in sums.items():
            if count:
                logger.warning("%d more deliveries to %s were rejected (%s)", count, name, code)


def describe_omitted(same: int, undiagnosed: int) -> str:
    """How many rejections a line stands for besides its own."""
    more = f" {same} more were rejected for this cause." if same else ""
    return more + (f" {undiagnosed} more were rejected without a diagnosis." * bool(undiagnosed))


def loggable_sentence(sentence: str, sources: Iterable[Source]) -> str:
    """A sentence for any log: one line, nothing that a terminal obeys, no secret of a source."""
    for secret in [text for source in sources for text in source.texts_to_hide()]:
        if len(secret) >= SHORTEST_HIDDEN:
            sentence = sentence.replace(secret, "***")
    cut = sentence if len(sentence) <= LONGEST else sentence[:LONGEST] + "…"
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut
    )
