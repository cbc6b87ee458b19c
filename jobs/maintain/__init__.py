"""Maintenance: retention, small files, and removal of clusters."""
