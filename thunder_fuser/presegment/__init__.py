"""Rewrites of a fusion before it is cut, in the order in which they run. Behind them comes
`meet_columns`: the pipeline keeps what that marks where a template holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from thunder_fuser.analysis.layout import Layout
from thunder_fuser.analysis.shared_rows import shared_rows
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.both_ways import both_ways
from thunder_fuser.presegment.chain_scans import chain_scans
from thunder_fuser.presegment.choose_sums import choose_sums
from thunder_fuser.presegment.compare_places import compare_places
from thunder_fuser.presegment.compare_words import compare_words
from thunder_fuser.presegment.cut_rows import cut_rows
from thunder_fuser.presegment.divide_first import divide_first
from thunder_fuser.presegment.factor_maxima import factor_maxima
from thunder_fuser.presegment.factor_sums import factor_sums
from thunder_fuser.presegment.fold_flips import fold_flips
from thunder_fuser.presegment.fold_logistics import fold_logistics
from thunder_fuser.presegment.fold_logs import fold_logs
from thunder_fuser.presegment.fold_maxima import fold_maxima
from thunder_fuser.presegment.fold_normals import fold_normals
from thunder_fuser.presegment.fold_places import fold_places
from thunder_fuser.presegment.fold_powers import fold_powers
from thunder_fuser.presegment.fold_sums import fold_sums
from thunder_fuser.presegment.follow_memory import follow_memory
from thunder_fuser.presegment.gather_once import gather_once
from thunder_fuser.presegment.group_rows import group_rows
from thunder_fuser.presegment.group_samples import group_samples
from thunder_fuser.presegment.join_pads import join_pads
from thunder_fuser.presegment.lay_results import lay_results
from thunder_fuser.presegment.merge_sums import merge_sums
from thunder_fuser.presegment.one_pass_counts import one_pass_counts
from thunder_fuser.presegment.one_pass_exponentials import one_pass_exponentials
from thunder_fuser.presegment.one_pass_variance import one_pass_variance
from thunder_fuser.presegment.pack_rows import pack_rows
from thunder_fuser.presegment.pick_terms import pick_terms
from thunder_fuser.presegment.reduce_pieces import reduce_pieces
from thunder_fuser.presegment.scale_masks import scale_masks
from thunder_fuser.presegment.share_exponentials import share_exponentials
from thunder_fuser.presegment.share_indices import share_indices
from thunder_fuser.presegment.share_sums import share_sums
from thunder_fuser.presegment.slice_first import slice_first
from thunder_fuser.presegment.split_groups import split_groups
from thunder_fuser.presegment.split_orders import split_orders
from thunder_fuser.presegment.split_reductions import split_reductions
from thunder_fuser.presegment.stop_gathers import stop_gathers
from thunder_fuser.presegment.store_turned import store_turned
from thunder_fuser.presegment.sum_apart import sum_apart
from thunder_fuser.presegment.sum_each import sum_each
from thunder_fuser.presegment.sum_neighbours import sum_neighbours
from thunder_fuser.presegment.sum_places import by_places, sum_places
from thunder_fuser.presegment.sum_rows_first import sum_rows_first
from thunder_fuser.presegment.undo_turns import undo_turns
from thunder_fuser.presegment.walk_columns import walk_columns
from thunder_fuser.presegment.walk_images import walk_images
from thunder_fuser.presegment.walk_short import walk_short
from thunder_fuser.target import Target

PASSES: tuple[Callable[[Fusion], Fusion], ...] = (
    share_indices,
    fold_powers,
    fold_logistics,  # of what is a reciprocal by then
    fold_sums,
    divide_first,
    compare_words,
    compare_places,
    share_exponentials,
    fold_maxima,
    reduce_pieces,  # of what is shared by then
    fold_flips,
    stop_gathers,
    gather_once,
)


def arrange(
    fusion: Fusion,
    layouts: Mapping[TensorView, Layout],
    target: Target,
    *,
    strict: bool = False,
) -> Fusion:
    """`fusion` for tensors that lie as `layouts`, on `target`. The order of memory comes first: it
    decides which reductions are along rows. `strict` keeps all products, exponentials, logarithms
    and sums of the trace, whose terms may be infinite."""
    fusion = fusion if strict else fold_normals(choose_sums(pick_terms(fusion)))
    fusion = fusion if strict else scale_masks(fold_logs(fold_places(join_pads(fusion))))
    fusion = undo_turns(sum_each(slice_first(fusion)), target)
    fusion = walk_short(lay_results(follow_memory(fusion, layouts, target)))
    fusion = sum_neighbours(fusion, target)
    fusion = sum_rows_first(fusion if strict else merge_sums(fusion), target)
    fusion = fusion if strict else both_ways(factor_maxima(sum_apart(fusion)))
    shared = shared_rows(fusion, target)
    fusion = fusion if strict else cut_rows(fusion, shared, target)
    fusion = fusion if strict else one_pass_exponentials(fusion, shared, target)
    fusion = one_pass_counts(fusion, shared, target)
    apart = by_places(fusion, layouts, target, shared)
    fusion = one_pass_variance(fusion, lambda tv: shared(tv) or apart(tv))
    fusion = share_sums(fusion, target, apart)
    fusion = sum_places(fusion, apart)
    fusion = chain_scans(fusion, target)
    fusion = store_turned(group_rows(fusion, layouts, target))
    fusion = group_samples(fusion, target)
    fusion = fusion if strict else factor_sums(fusion)
    fusion = walk_columns(fusion, layouts, target)
    fusion = walk_images(fusion, target)
    fusion = split_reductions(fusion, target)
    fusion = pack_rows(fusion, layouts, target)
    return split_orders(split_groups(fusion))  # that of what else is long reads keys of its index


def tidy(fusion: Fusion) -> Fusion:
    """`fusion` after every pass."""
    for rewrite in PASSES:
        fusion = rewrite(fusion)
    return fusion
