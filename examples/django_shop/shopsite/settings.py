"""Django's settings. Secrets and addresses come from the environment."""

import os
from typing import Any

SECRET_KEY = os.environ["DJANGO_SECRET_KEY"]
DEBUG = False
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "127.0.0.1 localhost").split()
ROOT_URLCONF = "shopsite.urls"
WSGI_APPLICATION = "shopsite.wsgi.application"
INSTALLED_APPS = ["orders"]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
]
# Host, port, user and password: libpq takes them from PGHOST, PGPORT, PGUSER and PGPASSWORD.
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ.get("PGDATABASE", "djangoshop"),
        "ATOMIC_REQUESTS": True,
        "CONN_MAX_AGE": 60,
        "TEST": {"NAME": "test_djangoshop"},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
# Each mail is a file there. In production set EMAIL_HOST instead.
EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
EMAIL_FILE_PATH = os.environ.get("MAIL_FOLDER", "mails")
DEFAULT_FROM_EMAIL = "shop@example.com"

# Of the shop. `orders/hooks.py` uses them.
STRIPE_WEBHOOK_SECRET = os.environ["STRIPE_WEBHOOK_SECRET"]
WAREHOUSE_WEBHOOK_SECRET = os.environ["WAREHOUSE_WEBHOOK_SECRET"]
BOOKS_SIGNING_SECRET = os.environ["BOOKS_SIGNING_SECRET"]
BOOKS_URL = os.environ.get("BOOKS_URL", "https://books.example/entries")
# Messages go out by https, and not to this machine, unless it is named here.
EGRESS_ALLOW = os.environ.get("EGRESS_ALLOW", "").split()
