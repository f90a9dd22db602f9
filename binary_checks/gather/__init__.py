"""Gathers facts by type, once and lazily, and the packages given beside the judged one."""
