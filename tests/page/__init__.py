"""Tests of the page of stewards; one process runs them all, with one Chromium."""
