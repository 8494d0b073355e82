"""What a row of the op table holds.

From a row follow `fd.ops.<name>`, the record and its printed form, the claim check in Thunder, the
CUDA line, the torch evaluator, alias analysis, the parametrised tests and the op table in the docs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from thunder_fuser.dtypes import DataType
from thunder_fuser.ops.dtype_sets import ALL


class Family(Enum):
    """How an op is lowered. A new family means new code in `kernel/lower`; a new op does not."""

    POINTWISE = "pointwise"  # one CUDA expression per element
    VIEW = "view"  # an index map and nothing else; expressible as a torch view
    PAD = "pad"  # an index map with a fill value outside the producer's window
    CAT = "cat"  # choose the input whose window holds the index
    GATHER = "gather"  # an index map in which one axis is read from a tensor of integers
    GROUPED = "grouped"  # combine the elements that a tensor of integers puts side by side
    PICKED = "picked"  # combine the elements of a row that an index of each sends to one place
    ORDER = "order"  # put the places of a tensor of integers in order
    STAGE = "stage"  # the same, by one digit: needs all that the stage before it made
    FULL = "full"  # a constant
    IOTA = "iota"  # a function of the index alone
    RANDOM = "random"  # Philox of the linear index
    REDUCTION = "reduction"  # combine over reduced axes
    SCAN = "scan"  # combine along an axis, and keep what is combined so far
    SCALAR = "scalar"  # host arithmetic on sizes; never reaches a kernel


class Cost(Enum):
    """What recomputing a value in another segment costs."""

    FREE = "free"
    CHEAP = "cheap"
    EXPENSIVE = "expensive"
    NEVER = "never"


class Kind(Enum):
    """What an argument of `fd.ops.<name>` may be."""

    TENSOR = "tensor"
    TENSOR_OR_SCALAR = "tensor or scalar"
    TENSORS = "list of tensors"
    SCALAR = "scalar"
    DIM = "dim"  # wrapped into [0, rank)
    DIMS = "dims"  # each wrapped, order kept
    DIM_SET = "dim set"  # each wrapped, sorted, no duplicates; None means all
    SHAPE = "shape"  # ints, Scalars or a Vector; becomes scalar operands
    EXTENT = "extent"  # one int or Scalar; a shape of one dim
    INT = "int"
    INTS = "ints"
    BOOLS = "bools"
    FLAG = "flag"
    DTYPE = "dtype"


class _Required(Enum):
    REQUIRED = "required"


REQUIRED = _Required.REQUIRED


@dataclass(frozen=True)
class Param:
    """One parameter of an op, in the order of its public signature.

    Dims are wrapped into the rank of the first tensor operand, or into the length of the shape
    parameter named by `wrapped_by`. `absent` is the number that stands for a scalar left out.
    `dtypes` are the types of an operand that is not of the op's own, or those that a dtype may be.
    """

    name: str
    kind: Kind
    default: object = REQUIRED
    keyword_only: bool = False
    wrapped_by: str = ""
    absent: int | None = None
    dtypes: frozenset[DataType] | None = None


@dataclass(frozen=True)
class Operand:
    """What a dtype rule may know about an operand."""

    dtype: DataType
    is_scalar: bool


DtypeRule = Callable[[Sequence[Operand]], DataType]
OperandRule = Callable[[Sequence[Operand]], tuple[DataType, ...]]


@dataclass(frozen=True, repr=False)
class OpDef:
    """One operation.

    `cuda` and `host` are format strings over the operands `{0}`, `{1}`, ...; in `cuda` an operand
    is a variable of the compute type of the dtype that `operands_as` gives it, `{t}` is the
    result's compute type, `{s}` its type in memory, `{index}` the place of what is drawn, and names
    such as `tf::round` come from the device prelude. The value is that of a variable of type `{t}`
    initialised with the expression, so C++'s widening of small integers is undone. `strict`
    replaces `cuda` where the compiler could otherwise merge the op with its neighbours (a product
    contracted into an FMA); `fast` replaces it for f32 where the value ends in a 16-bit float, with
    an error of at most 2^-14 of the value. One whose fast form errs to both sides alike, by 2^-20
    or by 2^-24 for each power of e that is lost, is `fast_in_sums` too. `by_number` and
    `fast_by_number` replace both for f32 where the second operand is a number from 2^-100 to 2^100
    that the text knows, and of which the compiler can compute what it likes; `by_row` replaces
    `cuda` for f32 where that operand is the same for a whole row, `fast_by_row` then `fast`, and
    `fast_from_one` that where it is at least 1, as a denominator of a softmax; `near` does so for
    operands `within` a distance of zero, with the same bits in fewer instructions. One that `rises`
    keeps the order of numbers of 16 bits, and of these times a number. `by_lane` replaces `cuda` in
    a loop over lanes, behind which the launch ends where one of them failed: `{checks}` is the
    `tf::LaneChecks` of that loop.
    `torch` is an expression over `{0}`, ... and the attributes by name, evaluated in a namespace
    that holds torch and the `tf_` helpers of `runtime/torch_ops.py`; a bare name means
    `torch.<name>(operands)`. `host` is evaluated with the functions of `ops/host.py`. `prims` are
    names in Thunder's `PrimIDs`. `dtypes` are the operand types the op is defined for.
    `sample` bounds the values that tests draw, `ulps` is the error that tests grant the CUDA
    expression beside torch, in units of the last place of an f32 result.
    """

    name: str
    family: Family
    params: tuple[Param, ...]
    dtype: DtypeRule
    cuda: str = ""
    torch: str = ""
    host: str = ""
    prims: tuple[str, ...] = ()
    domain: str = ""  # name of the function in ir/domains.py; empty means pointwise
    copies: bool = False  # moves indices, but torch's result is a tensor of its own
    cost: Cost = Cost.CHEAP
    dtypes: frozenset[DataType] = ALL
    sample: tuple[float, float] = (-4.0, 4.0)
    operands_as: OperandRule | None = None  # types the operands are converted to; None: as they are
    strict: str = ""  # replaces `cuda` when every rounding of the trace is kept
    wraps: str = ""  # replaces `cuda` for integers: C++ knows no sum of signed ones that overflows
    checks: bool = False  # ends the launch where the first operand is none of those it takes
    by_lane: str = ""  # replaces `cuda` then, in a loop over lanes
    is_step: bool = False  # jumps: the smallest error in an operand may change the whole result
    fast: str = ""  # replaces `cuda`, for f32, where the value ends in a 16-bit float
    fast_in_sums: bool = False  # and where it is a factor of the terms of a long sum
    by_number: str = ""  # replaces `cuda`, for f32, where the second operand is a literal
    fast_by_number: str = ""  # and this one `fast`
    by_row: str = ""  # replaces `cuda`, for f32, where the second operand is one number a row
    fast_by_row: str = ""  # and this one `fast`
    fast_from_one: str = ""  # and this one that, where the number is from 1 on
    near: str = ""  # replaces `cuda`, for f32, where the operand lies
    within: float = 0.0  # this distance of zero
    rises: bool = False
    combine: str = ""  # reductions: CUDA expression of {0} and {1}, both of the state's type
    identity: str = ""  # reductions: CUDA expression of the state's type
    # reductions: a term that changes none, where there is a number of any type that is one
    neutral: int | None = None
    state: str = "{t}"  # reductions: what is known of the terms so far
    state_size: int = 1  # and of how many {t} it takes the bytes
    in_pairs: bool = False  # reductions: `combine` is exact in 16 bits, and takes two such floats
    meet: str = ""  # reductions: states {0} of {width} threads as one, if `combine` is slow
    step: str = ""  # reductions: the state {0} with one more term {1}; as `combine` where empty
    steps: str = ""  # and with several, an array, if that is less than one after another
    finish: str = "{0}"  # reductions: the result of a state
    is_permutation: bool = False  # its n elements are the numbers from 0 to n - 1
    ulps: float = 0.0

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def operand_dtypes(self, operands: Sequence[Operand]) -> tuple[DataType, ...]:
        """The types to which `operands` are converted before the op's expression."""
        if self.operands_as is None:
            return tuple(o.dtype for o in operands)
        return self.operands_as(operands)

    @property
    def results(self) -> frozenset[DataType] | None:
        """The types that a caller may ask a result for; None for any."""
        return next((p.dtypes for p in self.params if p.kind is Kind.DTYPE), None)

    @property
    def is_finished(self) -> bool:
        """True for a reduction whose state is its result."""
        return self.finish == "{0}"

    @property
    def operands(self) -> tuple[Param, ...]:
        """The parameters that are tensors or scalars at run time, in order."""
        return tuple(p for p in self.params if p.kind in _OPERAND_KINDS)


_OPERAND_KINDS = frozenset({Kind.TENSOR, Kind.TENSOR_OR_SCALAR, Kind.TENSORS, Kind.SCALAR})
