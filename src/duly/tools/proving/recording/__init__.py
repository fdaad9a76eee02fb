"""Records every call to the outside, and answers it here: nothing really leaves the process."""

from duly.tools.proving.recording.answers import Answer, Answers
from duly.tools.proving.recording.hooks import Hook
from duly.tools.proving.recording.net import Net
from duly.tools.proving.recording.recorder import Recorder, recording
from duly.tools.proving.recording.refusals import Refusals, refuse_refused

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
