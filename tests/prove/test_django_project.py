"""A Django project as `startproject` makes it: its models are imported after its settings."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

FILES = {
    "project/__init__.py": "",
    "project/settings.py": """
from pathlib import Path
INSTALLED_APPS = ["shop"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path(__file__).parents[1] / "shop.db",
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
}
USE_TZ = True
""",
    "shop/__init__.py": "",
    "shop/models.py": """
from django.db import models

class Order(models.Model):
    number = models.CharField(max_length=50)
    class Meta:
        app_label = "shop"
""",
    "shop/webhooks.py": """
import duly
from shop.models import Order

app = duly.Duly(begin=duly.django.database("default"))
app.source("orders", provider="github", secret="secret")

@app.on("orders", "paid")
def pay(event, tx):
    Order.objects.create(number="o-1")
""",
    "event.json": "{}",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE shop_order (id INTEGER PRIMARY KEY, number TEXT)")
    return tmp_path


def proved(project: Path, settings: str | None) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("DJANGO")}
    told = {} if settings is None else {"DJANGO_SETTINGS_MODULE": settings}
    words = ["--event", "event.json", "--type", "paid", "--only", "twice"]
    return subprocess.run(
        [sys.executable, "-m", "duly", "prove", "shop.webhooks:app", *words],
        cwd=project,
        env={**known, **told},
        capture_output=True,
        text=True,
        check=False,
        timeout=230,
    )


def test_a_project_is_proved_with_the_settings_that_the_environment_names(project: Path) -> None:
    done = proved(project, "project.settings")
    assert done.returncode == 0, done.stderr
    assert "twice ended as the single run did" in done.stdout


def test_a_project_without_its_settings_is_told_how_to_name_them(project: Path) -> None:
    done = proved(project, None)
    assert done.returncode == 2
    assert "set DJANGO_SETTINGS_MODULE=project.settings, as manage.py does" in done.stderr
