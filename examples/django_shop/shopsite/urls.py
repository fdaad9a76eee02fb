"""The site: its own views, and below /hooks a view for each source."""

from django.urls import include, path

from duly import django as duly_django
from orders import views
from orders.hooks import app

urlpatterns = [
    path("hooks/", include(duly_django.urls(app))),  # hooks/stripe, hooks/warehouse
    path("orders", views.place_order),
    path("stock/<str:item>", views.show_stock),
]
