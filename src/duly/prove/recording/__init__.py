"""Records every call to the outside, and answers it here: nothing really leaves the process."""

from duly.prove.recording.answers import CannedAnswer, CannedAnswers
from duly.prove.recording.hooks import AuditHook
from duly.prove.recording.net import NetworkGuard
from duly.prove.recording.recorder import Recorder, recording
from duly.prove.recording.refusals import Refusals, refuse_refused

__all__ = [
    "AuditHook",
    "CannedAnswer",
    "CannedAnswers",
    "NetworkGuard",
    "Recorder",
    "Refusals",
    "recording",
    "refuse_refused",
]
