"""GPU code that does not decompress is a problem; what cannot be decompressed here is none."""

from __future__ import annotations

import pytest

from binary_checks.checks.cuda.device_code import corrupt_device_code
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    DeviceCode,
    DeviceContainers,
    DeviceDetails,
    DeviceKind,
    DeviceTarget,
    Finding,
    Note,
    NotInspected,
    ObjectDetails,
    Problem,
    UnreadDeviceCode,
)
from fixtures.values import elf_file, wheel

PATH = "demo/libdemo.so"
TARGET = DeviceTarget(kind=DeviceKind.SASS, architecture="sm_90")
CARRIER = wheel(
    objects=(
        elf_file(
            PATH,
            device_code=(
                DeviceCode(
                    kind=TARGET.kind,
                    architecture=TARGET.architecture,
                    count=1,
                    bytes=64,
                    compressed=1,
                ),
            ),
            device_containers=(DeviceContainers(targets=(TARGET,), count=1),),
        ),
    )
)


def judge_inside(*unread: UnreadDeviceCode) -> list[Finding]:
    item = ObjectDetails(path=PATH, unread=unread)
    return list(corrupt_device_code(CARRIER, DeviceDetails(objects=(item,))))


def test_code_that_does_not_decompress_is_a_problem_unless_it_cannot_be_tried_here() -> None:
    cut = "it unpacks to 0 bytes, but its head claims 27"
    assert judge_inside(UnreadDeviceCode(offset=64, count=1, reason=cut, broken=True)) == [
        Problem(
            path=PATH,
            sentence="has 1 entry of device code, at offset 64, which the GPU driver cannot load: "
            + cut,
        )
    ]
    assert judge_inside() == []
    lacking = UnreadDeviceCode(offset=64, count=3, reason="no library", lacking="device")
    large = UnreadDeviceCode(offset=80, count=1, reason="too many", too_large=True)
    sentence = "its device code could not be read: no library"
    assert judge_inside(lacking, large) == [
        NotInspected(path=PATH, sentence=sentence),
        NotInspected(
            path=PATH,
            sentence="1 entry of device code, at offset 80: too many",
            too_large=True,
        ),
    ]


def test_without_nvidia_code_there_is_nothing_to_decompress() -> None:
    with pytest.raises(NotApplicable, match="no device code"):
        list(corrupt_device_code(wheel(objects=(elf_file(),)), DeviceDetails()))
    with pytest.raises(NotApplicable, match="no code for NVIDIA's GPUs"):
        list(corrupt_device_code(CARRIER, DeviceDetails()))


def test_how_much_of_the_code_was_decompressed_is_noted() -> None:
    found = [
        ObjectDetails(path=PATH, entries=3000, inspected=32),
        ObjectDetails(path="demo/small.so", entries=2, inspected=2),
    ]
    (note,) = corrupt_device_code(CARRIER, DeviceDetails(objects=tuple(found)))
    sentence = "34 of 3,002 cubins and texts of PTX were decompressed"
    assert note == Note(path=PATH, sentence=sentence)
    whole = DeviceDetails(objects=(found[1],))
    assert list(corrupt_device_code(CARRIER, whole)) == []
