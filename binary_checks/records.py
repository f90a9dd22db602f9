"""The project's dataclass decorator: what `dataclasses` makes at import, it makes when needed.

The standard one looks at every field of a class, and writes six methods as text and compiles them,
which for our hundred classes was a third of what the command takes to start. Here a frozen class
with slots shares five of them with all others; its ``__init__`` is compiled when it has been called
some times, and what `dataclasses.fields` tells is found out when somebody asks: a run makes
instances of a third of the classes, and many of a few. To the reader and the type checker it is the
standard one, and other kinds of class are left to that.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_OURS: dict[str, bool] = {"frozen": True, "kw_only": True, "slots": True}
_FEW = 8  # instances, for which it takes less time not to compile
_ONE_AT_A_TIME = threading.RLock()  # the standard decorator changes the class that it looks at

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


def _finish(plain: type, *, order: bool) -> Any:
    """Make the class anew, as one that is there can be given no slots."""
    written = vars(plain)
    own = {name: written.get(name, dataclasses.MISSING) for name in inspect.get_annotations(plain)}
    inherited: dict[str, Any] = {}
    for base in reversed(plain.__mro__[1:]):
        inherited.update(vars(base).get("_declared", {}))
    contents = {
        **(_ORDERED if order else _FROZEN),
        **{name: value for name, value in written.items() if name not in own},
        "__slots__": tuple(name for name in own if name not in inherited),
        "__match_args__": (),
        "__qualname__": plain.__qualname__,
        "__dataclass_fields__": _Later(lambda _: _look_closely(plain).__dataclass_fields__),
        "__dataclass_params__": _Later(lambda _: _look_closely(plain).__dataclass_params__),
        "_declared": {**inherited, **own},  # by name a default, or what `dataclasses.field` gave
        "_compared": _Later(lambda made: _getter(made, lambda field: field.compare)),
        "_hashed": _Later(lambda made: _getter(made, _is_hashed)),
    }
    for name in ("__dict__", "__weakref__"):  # they are of the class as it was written
        contents.pop(name, None)
    made: Any = type(plain)(plain.__name__, plain.__bases__, contents)
    made.__init__ = _init_later(made)
    return made


def _look_closely(plain: type) -> Any:
    """The class as it is written, once the standard decorator has seen it."""
    if "__dataclass_fields__" not in vars(plain):
        dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=True)(plain)
    return plain


class _Later:
    """An attribute of a class, made when it is first asked for."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, _: object, owner: type) -> Any:
        with _ONE_AT_A_TIME:
            made = self._make(owner)
            setattr(owner, self._name, made)
        return made


def _getter(cls: Any, which: Callable[[Any], bool]) -> Callable[[Any], Any]:
    """What takes some attributes of an object, to be compared or hashed."""
    names = [field.name for field in dataclasses.fields(cls) if which(field)]
    return operator.attrgetter(*names) if names else lambda _: ()


def _is_hashed(field: Any) -> bool:
    return bool(field.compare if field.hash is None else field.hash)


def _init_later(cls: Any) -> Callable[..., None]:
    """Set the attributes of the first instances one by one: of most classes a run makes no more."""
    calls = 0

    def initialise(self: Any, *places: Any, **values: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > _FEW or places or not _fill(self, cls._declared, values):
            cls.__init__ = written = _write_init(cls)
            written(self, *places, **values)

    return initialise


def _fill(made: Any, declared: dict[str, Any], values: dict[str, Any]) -> bool:
    """False where something lacks or is too much, of which the compiled ``__init__`` tells."""
    given = 0
    for name, default in declared.items():
        field = default if isinstance(default, dataclasses.Field) else None
        if name in values and (field is None or field.init):
            value = values[name]
            given += 1
        elif field is None:
            value = default
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        else:
            value = field.default
        if value is dataclasses.MISSING:
            return False
        object.__setattr__(made, name, value)
    if given == len(values) and hasattr(made, "__post_init__"):
        made.__post_init__()
    return given == len(values)


def _write_init(cls: Any) -> Callable[..., None]:
    """Compile it: keywords alone, defaults as declared, at last ``__post_init__``."""
    scope: dict[str, Any] = {"_put": object.__setattr__, "_missing": dataclasses.MISSING}
    parameters, lines = [], []
    for name, declared in cls._declared.items():
        value, field = name, declared
        if not isinstance(field, dataclasses.Field):
            field = dataclasses.field(default=declared)
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


def _methods(*kinds: type) -> dict[str, Any]:
    found = {name: value for kind in kinds for name, value in vars(kind).items()}
    return {name: value for name, value in found.items() if inspect.isfunction(value)}


_FROZEN = _methods(_Frozen)
_ORDERED = _methods(_Frozen, _Ordered)
