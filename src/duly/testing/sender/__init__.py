"""What ``duly deliver`` does: make a genuine event, deliver it as often as asked, judge replies."""
