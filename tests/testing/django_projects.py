"""A project of Django's as `startproject` makes one, with a shop that receives and enqueues."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "manage.py": """
        import os
        import sys

        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")

        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)
        """,
    "settings.py": """
        DATABASES = {{"default": {database!r}}}
        DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
        INSTALLED_APPS = ["shop"]
        ROOT_URLCONF = "urls"
        SECRET_KEY = "of-tests"
        USE_TZ = True
        """,
    "urls.py": """
        from django.urls import include, path
        from duly import django
        from shop.hooks import app, buy

        urlpatterns = [path("hooks/", include(django.urls(app))), path("buy/<id>", buy)]
        """,
    "shop/__init__.py": "",
    "shop/migrations/__init__.py": "",
    "shop/models.py": """
        from django.db import models

        class Payment(models.Model):
            id = models.CharField(primary_key=True, max_length=100)
        """,
    "shop/migrations/0001_initial.py": """
        import duly
        from django.db import migrations, models

        def make_duly_tables(apps, schema_editor):
            duly.migrate(schema_editor.connection)

        class Migration(migrations.Migration):
            initial = True
            dependencies = []
            operations = [
                migrations.CreateModel(
                    name="Payment",
                    fields=[("id", models.CharField(max_length=100, primary_key=True))],
                ),
                migrations.RunPython(make_duly_tables, migrations.RunPython.noop),
            ]
        """,
    "shop/hooks.py": """
        import duly
        from django.db import transaction
        from django.http import HttpResponse
        from shop.models import Payment

        app = duly.Duly(begin=duly.django.database("default"))
        app.source("stripe", secret="whsec_x")
        app.source("now", provider="stripe", secret="whsec_x", inline=True)

        @app.on("stripe")
        @app.on("now")
        def record(event, tx):
            Payment.objects.create(id=event.id)

        @app.job
        def receipt(job): ...

        @transaction.atomic
        def buy(request, id):
            Payment.objects.create(id=id)
            app.enqueue(receipt, id)
            with app.transaction() as tx:
                tx.enqueue(receipt, id)
            return HttpResponse(id)
        """,
}


def lay_out(folder: Path, database: dict[str, Any], files: dict[str, str]) -> None:
    """Write the project, and the tests that are to run in it."""
    for name, text in {**FILES, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        told = text.format(database=database) if name == "settings.py" else text
        path.write_text(dedent(told))
