"""The power-cut lane of the crash matrix: what a disk may have kept, brought back and audited."""
