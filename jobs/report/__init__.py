"""Reporting: tables -> a page, a summary, and files for programs. Plain Python behind ``queries``; names are made masked first."""
