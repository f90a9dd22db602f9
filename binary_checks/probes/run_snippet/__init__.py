"""Whether a profile's own lines of Python hold."""
