"""A bounded mapping that forgets what was not used for longest."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from thunder_fuser.locks import new_lock

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """At most `bound` values. Methods may be called from several threads."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._lock = new_lock()
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """The value of `key`, which counts as a use, or None."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def keep(self, key: Key, value: Value) -> Value:
        """The value of `key`: the one kept already, else `value`, which is kept from now on."""
        with self._lock:
            kept = self._values.setdefault(key, value)
            self._values.move_to_end(key)
            while len(self._values) > self._bound:
                self._values.popitem(last=False)
            return kept

    def values(self) -> tuple[Value, ...]:
        """All values, the most recently used last."""
        with self._lock:
            return tuple(self._values.values())
