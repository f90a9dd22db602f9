"""Gatherers: functions that compute the facts that checks ask for, and packages given alongside."""
