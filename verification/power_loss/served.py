"""What `duly serve verification.power_loss.served:app` serves while it is recorded."""

import os
from pathlib import Path

from verification.power_loss.shop import Clock, World, shop

folder = Path(os.environ["DULY_POWER_FOLDER"])
world = World(folder / "world")
app = shop(f"sqlite:///{folder}/disk/shop.db", world.tell, Clock(), scheduled=False)
