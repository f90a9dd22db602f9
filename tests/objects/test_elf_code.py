"""Machine code is distinguished from strings and tables by samples."""

from __future__ import annotations

import struct

import pytest

from binary_checks.objects.elf.reader import CODE_DETECTORS

CODE = {
    # mov rax,[rsp+8]; add rax,rdx; mov [rsp+16],rax; ret
    "x86_64": bytes.fromhex("488b4424084801d04889442410c3") * 1000,
    # ldr x0,[sp,8]; add x0,x0,x1; str x0,[sp,16]; ret
    "aarch64": bytes.fromhex("e00740f90000018be00b00f9c0035fd6") * 1000,
}
DATA = {
    "text": b"cannot open the shared library: no such file\0" * 400,
    "numbers": b"".join(struct.pack("<d", number / 7) for number in range(2000)),
    "zeros": bytes(16_000),
}


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
@pytest.mark.parametrize("architecture", sorted(CODE))
def test_code_is_told_wherever_a_piece_of_it_begins(architecture: str, offset: int) -> None:
    piece = CODE[architecture][offset:]
    assert CODE_DETECTORS[architecture](piece, 0, len(piece), offset)


@pytest.mark.parametrize("data", sorted(DATA))
@pytest.mark.parametrize("architecture", sorted(CODE))
def test_data_are_no_code_nor_is_code_with_data_behind_it(architecture: str, data: str) -> None:
    is_code, text = CODE_DETECTORS[architecture], DATA[data]
    assert not is_code(text, 0, len(text), 0)
    both = CODE[architecture] + text
    assert not is_code(both, 0, len(both), 0)
