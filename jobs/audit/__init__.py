"""Auditing: what was given -> audits, movements and findings."""
