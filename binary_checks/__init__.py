"""binary_checks: a pytest plugin that says whether a built binary package is fit to ship."""

from binary_checks.declaring import check

__version__ = "0.1.0"
__all__ = ["__version__", "check"]
