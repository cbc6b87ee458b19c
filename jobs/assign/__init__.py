"""Assigning: snapshots -> what each assignor gives."""
