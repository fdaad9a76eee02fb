"""For the tests of applications: genuine deliveries, jobs and time in your own hand, no server.

With pytest these are the fixtures ``duly_app``, ``deliver``, ``run_jobs``, ``run_relay``,
``sent_messages`` and ``clock``. Everywhere else ``isolated("shop:app")`` has all of them.
"""

from duly.tools.testing.answers import Answer, Answers
from duly.tools.testing.applications import application, bound
from duly.tools.testing.clocks import HandClock
from duly.tools.testing.databases import Databases
from duly.tools.testing.delivering import Deliver
from duly.tools.testing.djangos import django_test_database
from duly.tools.testing.guarding import test_database
from duly.tools.testing.relaying import RunRelay
from duly.tools.testing.runs import Ran, Runs
from duly.tools.testing.trials import Trial, isolated
from duly.tools.testing.working import RunJobs

__all__ = [
    "Answer",
    "Answers",
    "Databases",
    "Deliver",
    "HandClock",
    "Ran",
    "RunJobs",
    "RunRelay",
    "Runs",
    "Trial",
    "application",
    "bound",
    "django_test_database",
    "isolated",
    "test_database",
]
