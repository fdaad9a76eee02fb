"""duly's tables, made in the transaction of this migration.

A later version of duly may need more: `duly migrate --check` tells, and a copy of this migration
under the next number applies it.
"""

from typing import Any

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

import duly


def make_tables(_: Any, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Apply what is missing."""
    duly.migrate(schema_editor.connection)


class Migration(migrations.Migration):
    """After the shop's own tables."""

    dependencies = [("orders", "0001_initial")]
    operations = [migrations.RunPython(make_tables, migrations.RunPython.noop)]
