"""Maintenance: retention, small files, and clusters that leave."""
