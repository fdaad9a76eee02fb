"""A Flask site around the shop."""

from flask import Flask, request
from shop import INSERT, app, ship

from duly import flask

site = Flask("website")
site.register_blueprint(flask.blueprint(app), url_prefix="/hooks")


@site.post("/checkout")
def checkout():
    order = request.get_json()["order"]
    with app.transaction() as tx:
        tx.execute(INSERT, event=order, kind="ordered")
        tx.enqueue(ship, {"order": order})
    return {"status": "accepted", "event": order}
