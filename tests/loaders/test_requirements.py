from __future__ import annotations

from binary_checks.loaders import simulate
from fixtures.linking import extension, target
from fixtures.values import wheel

REQUIRES = (
    "numpy>=1.2",
    "nvidia-cudnn-cu13; sys_platform == 'linux'",
    "pywin32; sys_platform == 'win32'",
    "pytest; extra == 'test'",
    "tomli; python_version < '3.11'",
    "not a requirement",
)


def test_requirements_that_apply_on_the_target_and_were_not_given_are_named() -> None:
    numpy = wheel("numpy-2.0-cp311-cp311-manylinux_2_17_x86_64.whl")
    package = wheel(objects=(extension(),))
    linkage = simulate(package, target(), others=(numpy,), requirements=REQUIRES)
    assert linkage.requirements == ("nvidia-cudnn-cu13",)
    assert not linkage.requirements_given


def test_requirements_that_are_known_to_be_given_are_not_named() -> None:
    package = wheel(objects=(extension(),))
    linkage = simulate(package, target(), requirements_given=True, requirements=REQUIRES)
    assert linkage.requirements == ()
    assert linkage.requirements_given
