"""Records every call to the outside, and answers it here: nothing really leaves the process."""

from duly.prove.recording.answers import Answer, Answers
from duly.prove.recording.hooks import Hook
from duly.prove.recording.net import Net
from duly.prove.recording.recorder import Recorder, recording
from duly.prove.recording.refusals import Refusals, refuse_refused

__all__ = [
    "Answer",
    "Answers",
    "Hook",
    "Net",
    "Recorder",
    "Refusals",
    "recording",
    "refuse_refused",
]
