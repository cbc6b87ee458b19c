"""The stage ``audit``: solutions -> audits, movements and findings."""
