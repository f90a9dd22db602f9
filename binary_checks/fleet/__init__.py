"""The fleet: many packages, every night. It runs `binary-checks` as a process and reads documents.

Nothing here judges a package, and nothing here knows pytest. Files are the truth: engines, tables
and pages can be thrown away and made again from what the store holds.
"""
