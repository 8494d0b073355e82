"""What a fusion pass decided about each bound symbol, kept for `explain`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from thunder.core.compile_data import get_compile_data
from thunder.core.symbol import BoundSymbol


@dataclass
class Report:
    """Reasons why bound symbols stayed outside, by the name of their first result."""

    reasons: dict[str, str] = field(default_factory=dict)
    _examined: dict[int, tuple[BoundSymbol, str | None]] = field(default_factory=dict)

    def reason(
        self, bsym: BoundSymbol, why_not: Callable[[BoundSymbol], str | None]
    ) -> str | None:
        """`why_not(bsym)`, asked once per symbol and remembered."""
        known = self._examined.get(id(bsym))
        if known is None:
            known = self._examined[id(bsym)] = (bsym, why_not(bsym))
            if known[1] is not None:
                self.unclaimed([bsym], known[1])
        return known[1]

    def unclaimed(self, bsyms: Iterable[BoundSymbol], reason: str) -> None:
        """Remember why `bsyms` stay outside; the first reason given for a symbol counts."""
        for bsym in bsyms:
            for part in (bsym, *bsym.subsymbols):
                for result in part.flat_proxy_outs:
                    self.reasons.setdefault(result.name, reason)


_reports: WeakKeyDictionary[object, list[Report]] = WeakKeyDictionary()


def keep_report(report: Report) -> None:
    """File the report with the function that is being compiled."""
    compilation = get_compile_data()
    if compilation is not None:
        report._examined.clear()
        _reports.setdefault(compilation, []).append(report)


def reports_of(compilation: object) -> list[Report]:
    """The reports of a function (its compile data), oldest first."""
    return _reports.get(compilation, [])
