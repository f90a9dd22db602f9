"""The words of problems: causes, shared parts of sentences, and lines of reports."""
