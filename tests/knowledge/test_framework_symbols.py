"""Symbols that only torch's own libraries define."""

from __future__ import annotations

import pytest

from binary_checks.knowledge.library_names import find_own_symbols, framework_of

NAMES = frozenset({"_ZN3c1015report_overflowEPKc", "cudaMalloc", "_ZN4demo3runEv"})
LOADED = ("demo.so", "libc10.so", "libtorch_cpu.so")


@pytest.mark.parametrize(
    ("symbol", "framework"),
    [
        ("_ZN3c1015report_overflowEPKc", "torch"),
        ("_ZNK2at10TensorBase4sizeEl", "torch"),
        ("_ZTIN5torch8autograd4NodeE", "torch"),
        ("aoti_torch_get_device_index", "torch"),
        ("torch_call_dispatcher", "torch"),
        ("_ZN6vision3nmsEv", ""),
        ("cudaMalloc", ""),
        ("torches", ""),
    ],
)
def test_symbols_are_told_by_their_namespaces(symbol: str, framework: str) -> None:
    assert framework_of(symbol) == framework


@pytest.mark.parametrize("unseen", ["libcudart.so.13", "libnvrtc.so.13", "libavcodec.so.61"])
def test_neither_nvidia_s_libraries_nor_those_of_c_have_them(unseen: str) -> None:
    assert find_own_symbols(NAMES, LOADED, [unseen]) == {"_ZN3c1015report_overflowEPKc"}
    assert find_own_symbols(NAMES, ["demo.so"], [unseen]) == set()  # torch is not loaded


@pytest.mark.parametrize("unseen", ["libtorch_cuda.so", "libdemo_core.so"])
def test_another_library_of_cpp_may_have_any(unseen: str) -> None:
    assert find_own_symbols(NAMES, LOADED, ["libcudart.so.13", unseen]) == set()
