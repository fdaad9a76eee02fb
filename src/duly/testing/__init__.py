"""For the tests of applications: genuine deliveries, jobs and time in your own hand, no server.

With pytest these are the fixtures ``duly_app``, ``deliver``, ``run_jobs``, ``run_relay``,
``sent_messages`` and ``clock``. Everywhere else ``isolated("shop:app")`` has all of them.
"""

from duly.testing.answers import Answer, Answers
from duly.testing.applications import application, bound
from duly.testing.clocks import HandClock
from duly.testing.databases import Databases
from duly.testing.deliver import Deliver
from duly.testing.django_database import django_test_database
from duly.testing.guard import test_database
from duly.testing.run_jobs import RunJobs
from duly.testing.run_relay import RunRelay
from duly.testing.runs import Ran, Runs
from duly.testing.trials import Trial, isolated

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
