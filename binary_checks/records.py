"""The project's dataclass decorator: what `dataclasses` compiles at import, it does when needed.

The standard one writes six methods as text for every class and compiles them at import, which for
our hundred classes was a third of what the command takes to start. Here a frozen class with slots
shares five of them with all others, and its ``__init__`` is compiled when it is first called: a run
makes instances of half the classes. To the reader and the type checker it is the standard one, and
other kinds of class are left to that.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_OURS: dict[str, bool] = {"frozen": True, "kw_only": True, "slots": True}

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, **how):
        """As `dataclasses.dataclass`, sooner done for ``frozen=True, kw_only=True, slots=True``."""
        if cls is None:
            return lambda cls: dataclass(cls, **how)
        order = how.pop("order", False)
        if how != _OURS:
            return dataclasses.dataclass(cls, order=order, **how)
        return _finish(cls, order=order)


def _finish(cls: type, *, order: bool) -> Any:
    plain = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=True, slots=True)
    made: Any = plain(cls)
    fields = dataclasses.fields(made)
    made._compared = _values(field.name for field in fields if field.compare)
    made._hashed = _values(
        field.name for field in fields if (field.compare if field.hash is None else field.hash)
    )
    made.__init__ = _init_later(made)
    shared = {**vars(_Frozen), **(vars(_Ordered) if order else {})}
    for name, method in shared.items():
        if isinstance(method, FunctionType) and name not in vars(cls):
            setattr(made, name, method)
    return made


def _values(names: Iterable[str]) -> Callable[[Any], Any]:
    """What takes these attributes of an object, to be compared or hashed."""
    listed = tuple(names)
    return operator.attrgetter(*listed) if listed else lambda _: ()


def _init_later(cls: type) -> Callable[..., None]:
    def write_and_call(self: Any, **values: Any) -> None:
        cls.__init__ = written = _write_init(cls)  # type: ignore[misc]
        written(self, **values)

    return write_and_call


def _write_init(cls: Any) -> Callable[..., None]:
    """Compile it: keywords alone, defaults as declared, at last ``__post_init__``."""
    scope: dict[str, Any] = {"_put": object.__setattr__, "_missing": dataclasses.MISSING}
    parameters, lines = [], []
    for field in dataclasses.fields(cls):
        name = value = field.name
        if field.default_factory is not dataclasses.MISSING:
            scope[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}()"
            if field.init:
                parameters.append(f"{name}=_missing")
                value += f" if {name} is _missing else {name}"
        elif field.default is not dataclasses.MISSING:
            scope[f"_default_{name}"] = field.default
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        lines.append(f"    _put(_self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("    _self.__post_init__()")
    star = ", *, " if parameters else ""
    head = f"def __init__(_self{star}{', '.join(parameters)}):"
    exec("\n".join([head, *(lines or ["    pass"])]), scope)  # noqa: S102 - names of our own fields
    written: Callable[..., None] = scope["__init__"]
    written.__qualname__ = f"{cls.__qualname__}.__init__"
    return written


class _Frozen:
    """The methods that each class gets as its own."""

    _compared: Callable[[Any], Any]
    _hashed: Callable[[Any], Any]

    def __repr__(self) -> str:
        shown = (field.name for field in dataclasses.fields(self) if field.repr)  # type: ignore[arg-type]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({values})"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        take = type(self)._compared
        return bool(take(self) == take(other))

    def __hash__(self) -> int:
        return hash(type(self)._hashed(self))

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        """Fill an empty instance, for copies and pickles."""
        for name, value in state[1].items():
            object.__setattr__(self, name, value)


class _Ordered:
    """The methods that each class gets beside them with ``order=True``."""

    _compared: Callable[[Any], Any]

    def __lt__(self, other: object) -> Any:
        return _order(self, other, operator.lt)

    def __le__(self, other: object) -> Any:
        return _order(self, other, operator.le)

    def __gt__(self, other: object) -> Any:
        return _order(self, other, operator.gt)

    def __ge__(self, other: object) -> Any:
        return _order(self, other, operator.ge)


def _order(self: _Ordered, other: object, compare: Callable[[Any, Any], Any]) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    take = type(self)._compared
    return compare(take(self), take(other))
