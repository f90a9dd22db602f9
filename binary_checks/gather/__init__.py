"""Gatherers: functions that compute the facts that checks request, and packages given alongside."""
