"""A Flask site around the shop, with sessions of its own."""

from flask import Flask, request
from shop import Entry, app, engine, ship
from sqlalchemy.orm import sessionmaker

from duly import flask

site = Flask("website")
site.register_blueprint(flask.blueprint(app), url_prefix="/hooks")
sessions = sessionmaker(engine)


@site.post("/checkout")
def checkout():
    order = request.get_json()["order"]
    with sessions() as session:
        session.add(Entry(event=order, kind="ordered"))
        app.enqueue(ship, {"order": order}, tx=session)
        session.commit()
    return {"status": "accepted", "event": order}
