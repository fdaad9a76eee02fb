"""The first tables of the shop, as `manage.py makemigrations` wrote them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("item", models.CharField(max_length=50)),
                ("email", models.EmailField(max_length=254)),
                ("paid", models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name="Payment",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("event", models.CharField(max_length=100)),
                ("payment", models.CharField(max_length=100)),
                ("cents", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="Stock",
            fields=[
                ("item", models.CharField(max_length=50, primary_key=True, serialize=False)),
                ("left", models.IntegerField()),
            ],
        ),
    ]
