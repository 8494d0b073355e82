"""What a thread that walks rows from the last one up had some rows ago.

    T3[s, r] = w0 * T2[s, r] + (w1 * T2[s, r + 1] where r + 1 < R)        T2 = f(T1)

A row ago T2 at r was what it is at r + 1 now. So where f is costly a thread has computed it already
and kept it: of the gradient of a causal convolution of four rows it computes one activation for
each element, not four. At the last row of a sample, where a row ago is the first one of the next
sample, nobody needs T2 at r + 1, as there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from thunder_fuser.analysis.access import Demand, Element, Index
from thunder_fuser.analysis.digits import Digit, Form, shift
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Cost


@dataclass(frozen=True)
class Delayed:
    """A tensor, where its element is that a row computes, and where those are that one row ago,
    two rows ago and so on were computed."""

    tensor: TensorView
    index: Index
    ago: tuple[Index, ...]

    @property
    def own(self) -> Element:
        return self.tensor, self.index

    @property
    def kept(self) -> tuple[Element, ...]:
        return tuple((self.tensor, index) for index in self.ago)


def delayed(results: Sequence[Element], needs: Demand, row: IterDomain) -> tuple[Delayed, ...]:
    """The costly tensors of which `results`, that need so much, need several rows, those first of
    which others are made."""
    lines = {} if needs.places else _lines(needs, row)
    kept = {key: lines[key[0]] for key in _costly(needs) if key[0] in lines}
    kept = {key: line for key, line in kept.items() if key != line.own}
    ago: dict[TensorView, int] = {}
    for key in _reached(results, needs, kept) & kept.keys():
        rows = kept[key].ago.index(key[1]) + 1
        ago[key[0]] = max(ago.get(key[0], 0), rows)
    made = dict.fromkeys(tv for tv, _ in needs.elements if tv in ago)
    return tuple(Delayed(tv, lines[tv].index, lines[tv].ago[: ago[tv]]) for tv in made)


def computed(results: Iterable[Element], needs: Demand, lines: Sequence[Delayed]) -> Demand:
    """What a row computes and reads of what `results` need."""
    kept = {key: line for line in lines for key in line.kept}
    reached = _reached(results, needs, kept)
    made = {key: e for key, e in needs.elements.items() if key in reached and key not in kept}
    return Demand(made, {key: known for key, known in needs.leaves.items() if key in reached})


def _reached(
    results: Iterable[Element], needs: Demand, kept: Mapping[Element, Delayed]
) -> set[Element]:
    """What is met on the way from results down to memory, and to what is `kept` since some row
    computed it as its own."""
    found, waiting = set[Element](), list(results)
    while waiting:
        key = waiting.pop()
        if key in found:
            continue
        found.add(key)
        if key in kept:
            waiting.append(kept[key].own)
        elif key in needs.elements:
            waiting += [(s.producer, s.index) for s in needs.elements[key].sources]
    return found


def _costly(needs: Demand) -> list[Element]:
    """The elements that take a costly function."""
    found: dict[Element, None] = {}
    for key, element in needs.elements.items():
        made = element.tensor.definition
        is_costly = made is not None and made.op.cost is Cost.EXPENSIVE
        if is_costly or any((s.producer, s.index) in found for s in element.sources):
            found[key] = None
    return list(found)


def _lines(needs: Demand, row: IterDomain) -> dict[TensorView, Delayed]:
    """The tensors of which all that is needed is at several rows, and else at one place."""
    indices: dict[TensorView, list[Index]] = {}
    for tv, index in needs.elements:
        indices.setdefault(tv, []).append(index)
    found = ((tv, _line(tv, every, row)) for tv, every in indices.items() if len(every) > 1)
    return {tv: line for tv, line in found if line is not None}


def _line(tv: TensorView, indices: Sequence[Index], row: IterDomain) -> Delayed | None:
    """`tv` at the first of its rows and at those behind it, if none lies in the next sample."""
    first = min(indices, key=lambda index: [form.constant for form in index])
    along = [(d, place) for d, form in enumerate(first) if (place := _in_sample(form, row))]
    if len(along) != 1:
        return None
    ((dim, place),) = along
    rows = max(index[dim].constant for index in indices) - first[dim].constant
    ago = tuple((*first[:dim], shift(first[dim], k), *first[dim + 1 :]) for k in range(1, rows + 1))
    ends_with_sample = tv.shape[dim] <= place.extent + first[dim].constant
    others = (form for d, form in enumerate(first) if d != dim)
    are_alike = {*indices} <= {first, *ago}
    if not (ends_with_sample and are_alike and all(_is_of_sample(f, place) for f in others)):
        return None
    return Delayed(tv, first, ago)


def _in_sample(form: Form, row: IterDomain) -> Digit | None:
    """The place of a row in its sample, if the form counts such."""
    match form.terms:
        case ((1, Digit(base, 1) as place),) if base is row:
            return place
    return None


def _is_of_sample(form: Form, place: Digit) -> bool:
    """True for what is the same in all rows of a sample."""
    rest = tuple(t for t in form.terms if t[1].base is place.base)
    others = Form(0, tuple(t for t in form.terms if t not in rest))
    return place.base not in others.bases and all(d.stride % place.extent == 0 for _, d in rest)
