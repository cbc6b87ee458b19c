"""The stage ``assign``: snapshots -> the solution of each assignor."""
