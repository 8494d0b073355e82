"""What a fusion pass decided about each bound symbol, kept for `explain`."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from thunder.core.compile_data import get_compile_data
from thunder.core.symbol import BoundSymbol

from thunder_fuser import log
from thunder_fuser.executor.claims import prim_name
from thunder_fuser.executor.torch_names import name_outside

# Thunder renames the results of unclaimed symbols after the pass; their name, source line and
# order stay.
Key = tuple[str, "str | None", "int | None"]


_BOOKKEEPING = frozenset(
    {
        "CHECK_LEN",
        "COMMENT",
        "DEL",
        "PYTHON_DEL",
        "PYTHON_RETURN",
        "RETURN",
        "UNPACK_SEQUENCE",
        "UNPACK_TRIVIAL",
    }
)


def is_bookkeeping(bsym: BoundSymbol) -> bool:
    """True for what Thunder adds around a program: nobody asks why that was not fused."""
    is_internal = bsym.sym.name.startswith(("python_", "clear_", "get_grad", "put_grad"))
    return is_internal or prim_name(bsym) in _BOOKKEEPING


@dataclass
class Report:
    """Reasons why bound symbols stayed outside, in the order of the trace."""

    _reasons: defaultdict[Key, list[str]] = field(default_factory=lambda: defaultdict(list))
    _refused: dict[int, tuple[BoundSymbol, str]] = field(default_factory=dict)

    def refused(self, bsym: BoundSymbol, reason: str) -> None:
        """Remember why a symbol cannot be part of any region."""
        self._refused[id(bsym)] = (bsym, reason)

    def unclaimed(self, bsyms: Iterable[BoundSymbol], group_reason: str) -> None:
        """Enter symbols that stay outside: each for its own reason, else for that of its group."""
        for bsym in bsyms:
            _, reason = self._refused.get(id(bsym), (bsym, group_reason))
            self._reasons[key_of(bsym)].append(reason)
            if not is_bookkeeping(bsym):
                log.event("claim", "outside: %s: %s", bsym.sym.name, reason)

    def reasons(self) -> dict[Key, deque[str]]:
        """The reasons by key, to be taken from the left as the final trace is walked."""
        return {key: deque(found) for key, found in self._reasons.items()}

    def close(self) -> None:
        """Let go of the bound symbols."""
        self._refused.clear()


def key_of(bsym: BoundSymbol) -> Key:
    """What identifies a symbol before and after Thunder's last pass."""
    return name_outside(bsym), bsym.source_filename, getattr(bsym.source_positions, "lineno", None)


def take_reason(reasons: Mapping[Key, deque[str]], bsym: BoundSymbol) -> str | None:
    """The next reason entered for the symbol or for what it was made from, if there is one."""
    parts = [bsym]
    while parts:
        found = reasons.get(key_of(parts[0]))
        if found:
            return found.popleft()
        parts = list(parts[0].subsymbols[:1])
    return None


_reports: WeakKeyDictionary[object, list[Report]] = WeakKeyDictionary()


def keep_report(report: Report) -> None:
    """File the report with the function that is being compiled."""
    report.close()
    compilation = get_compile_data()
    if compilation is not None:
        _reports.setdefault(compilation, []).append(report)


def reports_of(compilation: object) -> list[Report]:
    """The reports of a function (its compile data), oldest first."""
    return _reports.get(compilation, [])
