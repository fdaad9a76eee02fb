"""The site's settings: Django's defaults, and the database of DATABASE_URL."""

import os
from urllib.parse import urlsplit

parts = urlsplit(os.environ["DATABASE_URL"])
if parts.scheme == "sqlite":
    default = {"ENGINE": "django.db.backends.sqlite3", "NAME": parts.path[1:]}
else:
    default = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "USER": parts.username,
        "HOST": parts.hostname,
        "PORT": parts.port,
    }

DATABASES = {"default": default}
SECRET_KEY = os.environ["SHOP_SECRET"]
ROOT_URLCONF = "urls"
ALLOWED_HOSTS = ["127.0.0.1"]
MIDDLEWARE = [
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
]
