"""Division of an index is reasoned about in one place: the rest of the compiler asks it.

`analysis/digits.py` divides forms, `blocks.py` cuts them over devices, `extents.py` divides
symbolic extents. Whatever else divides in the compiler divides numbers that are no index, and
stands below with what it counts; a new entry needs such a reason, or belongs into `digits.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "thunder_fuser"
COMPILER = ("ops", "ir", "analysis", "presegment", "segment", "schedule", "kernel", "codegen")
INDEX_DIVISION = {"analysis/digits.py", "analysis/blocks.py", "analysis/extents.py"}

VALUES = "a value that an op computes from values"
SIZES = "the extent of an op's result"
PARTS = "how many equal parts an extent has; the parts are axes of a split, their indices forms"
POINTS = "the number at which a piece ends; indices inside the piece are forms"
REGISTERS = "whether elements fill whole registers, or words of memory"
LANES = "how many elements fill one access, a power of two that leaves whole vectors"
PERIODS = "whether one length is a multiple of another"
BANKS = "which bank of shared memory a byte is in"
THREADS = "how many threads, rows, vectors or blocks there are"

ALLOWED = {
    "ops/host.py:div": VALUES,
    "ops/host.py:pow": VALUES,
    "ops/host.py:remainder": VALUES,
    "ops/host.py:logical_right_shift": VALUES,
    "ops/host.py:digamma": VALUES,
    "ir/domains.py:_infer": SIZES,
    "ir/domains.py:pad": SIZES,
    "ir/group_domains.py:group_pieces": SIZES,
    "ops/groups.py:counted_chunks": SIZES,
    "analysis/carries.py:carry_of": PERIODS,
    "analysis/delayed.py:_is_of_sample": PERIODS,
    "analysis/digit_stages.py:is_chunk": THREADS,
    "analysis/image_slots.py:_alone": THREADS,
    "analysis/image_slots.py:down": THREADS,
    "analysis/image_slots.py:_threads_at_rows": THREADS,
    "analysis/image_slots.py:_turns_well": BANKS,
    "analysis/image_slots.py:pitch": LANES,
    "analysis/image_slots.py:_fitting": THREADS,
    "analysis/image_slots.py:_walking": THREADS,
    "analysis/image_slots.py:slots": LANES,
    "analysis/known.py:_inside": POINTS,
    "analysis/known.py:_reached": POINTS,
    "analysis/layout.py:end_inside_word": REGISTERS,
    "analysis/met_rows.py:groups_of_block": THREADS,
    "kernel/row_ir.py:threads_of_piece": THREADS,
    "analysis/met_rows.py:met_rows_held": LANES,
    "analysis/met_rows.py:vector_of": LANES,
    "analysis/shared_rows.py:_is_in_crumbs": REGISTERS,
    "analysis/short_rows.py:rows_at_once": THREADS,
    "analysis/short_rows.py:rows": THREADS,
    "analysis/short_rows.py:_shares": LANES,
    "analysis/short_rows.py:share_of_image": PARTS,
    "analysis/short_rows.py:share_of_sides": LANES,
    "schedule/met_rows.py:of_met_rows": PERIODS,
    "analysis/met_columns.py:met_columns_held": THREADS,
    "presegment/below_maxima.py:_in_pieces": PARTS,
    "presegment/cut_rows.py:_are_walked": PARTS,
    "presegment/cut_rows.py:piece_size": PARTS,
    "presegment/meet_columns.py:_meeting": LANES,
    "schedule/met_columns.py:vectors_met": LANES,
    "schedule/row_axes.py:is_shifted": PERIODS,
    "schedule/row_axes.py:keeping_sides": PARTS,
    "schedule/row_axes.py:row_index": PARTS,
    "schedule/slabs.py:_about_a_line": THREADS,
    "schedule/slabs.py:_alike": THREADS,
    "schedule/slabs.py:_in_two_orders": LANES,
    "schedule/row_axes.py:whole_vectors": LANES,
    "schedule/stored_columns.py:parts_of": PARTS,
    "schedule/stored_rows.py:_few": PARTS,
    "schedule/stored_rows.py:_parts": PARTS,
    "schedule/stretches.py:of_images_in_stretches": PARTS,
    "schedule/stretches.py:_begin_whole": LANES,
    "analysis/walked_rows.py:cost": PARTS,
    "analysis/walked_rows.py:lanes": LANES,
    "analysis/walked_rows.py:rows_at_once": THREADS,
    "analysis/walked_rows.py:vectors": LANES,
    "analysis/reductions.py:plane_of": SIZES,
    "analysis/reductions.py:_column_scan_shape": SIZES,
    "presegment/share_sums.py:_do_meet": LANES,
    "presegment/group_rows.py:images_of": SIZES,
    "presegment/group_rows.py:_row_by_row": PARTS,
    "presegment/group_rows.py:_in_stretches": PARTS,
    "presegment/group_rows.py:_of_rows": PARTS,
    "presegment/group_rows.py:_of_stretches": PARTS,
    "presegment/group_samples.py:_grouped": PARTS,
    "presegment/group_samples.py:_parts": PARTS,
    "presegment/pack_rows.py:_way": PARTS,
    "presegment/sum_places.py:_are_worth": LANES,
    "presegment/pack_rows.py:_in_packs": PARTS,
    "presegment/pack_rows.py:filled": PARTS,
    "presegment/pack_rows.py:packed": PARTS,
    "presegment/share_sums.py:_refined": PARTS,
    "presegment/slice_first.py:_before": PARTS,
    "presegment/slice_first.py:_pieces": PARTS,
    "presegment/split_reductions.py:_of_samples": PARTS,
    "presegment/split_reductions.py:_samples_in_runs": PARTS,
    "presegment/split_reductions.py:_short_runs": LANES,
    "presegment/split_reductions.py:in_stretches": THREADS,
    "presegment/split_reductions.py:_divisor": PARTS,
    "presegment/split_reductions.py:_dealt": LANES,
    "presegment/split_reductions.py:_side_by_side": PARTS,
    "presegment/split_reductions.py:_parts": PARTS,
    "presegment/split_reductions.py:dealt": PARTS,
    "presegment/split_reductions.py:_shifted": PARTS,
    "schedule/classes.py:_unroll_replicated": THREADS,
    "schedule/classes.py:_lies_in_crumbs": LANES,
    "schedule/classes.py:_unroll_read_anyway": LANES,
    "schedule/classes.py:_longer": PARTS,
    "schedule/vectorize.py:_leaves_more": LANES,
    "schedule/column_axes.py:has_end": LANES,
    "schedule/column_axes.py:holds": PARTS,
    "schedule/column_axes.py:vectors_of_last": LANES,
    "schedule/abreast.py:abreast": THREADS,
    "schedule/abreast.py:_columns": THREADS,
    "schedule/columns.py:column_axes": LANES,
    "schedule/columns.py:of_lanes": LANES,
    "schedule/columns.py:_in_one_turn": THREADS,
    "schedule/columns.py:_room": THREADS,
    "schedule/columns.py:_threads": THREADS,
    "schedule/columns.py:_threads_of": THREADS,
    "schedule/columns.py:_scanning": THREADS,
    "schedule/column_scans.py:scanned": THREADS,
    "schedule/column_scans.py:_alone": THREADS,
    "schedule/column_stretches.py:_dealt": THREADS,
    "schedule/column_stretches.py:_dense": LANES,
    "schedule/column_stretches.py:_run": LANES,
    "schedule/column_stretches.py:in_stretches": LANES,
    "schedule/column_stretches.py:whole_rows": LANES,
    "codegen/chain_text.py:_of_whole": LANES,
    "kernel/column_ir.py:lanes": LANES,
    "codegen/chain_stretches.py:_copied": LANES,
    "codegen/chain_stretches.py:_over_vectors": LANES,
    "schedule/columns.py:_splits": THREADS,
    "schedule/columns.py:_batch": THREADS,
    "schedule/columns.py:_registers": REGISTERS,
    "schedule/columns.py:_in_batches": THREADS,
    "schedule/columns.py:_walking_up": THREADS,
    "schedule/kept_tiles.py:of": REGISTERS,
    "schedule/kept_tiles.py:tiling": THREADS,
    "schedule/beside_columns.py:beside": PARTS,
    "kernel/group_ir.py:blocks_at_once": THREADS,
    "kernel/groups.py:_ahead": THREADS,
    "kernel/kept_columns.py:write": THREADS,
    "presegment/walk_images.py:_deal": PARTS,
    "presegment/walk_images.py:_of_images": PARTS,
    "presegment/walk_columns.py:_groups": PARTS,
    "presegment/walk_columns.py:dealt": PARTS,
    "presegment/walk_columns.py:run": THREADS,
    "presegment/walk_columns.py:least": LANES,
    "presegment/walk_columns.py:blocks": THREADS,
    "presegment/walk_columns.py:is_even": PARTS,
    "schedule/kept_tiles.py:blocks": THREADS,
    "schedule/strips.py:width": LANES,
    "schedule/strips.py:_flat": LANES,
    "schedule/strips.py:_padded": LANES,
    "kernel/kept_ir.py:is_cut": THREADS,
    "schedule/strips.py:strip": LANES,
    "schedule/kept_tiles.py:_widths": THREADS,
    "analysis/kept_rows.py:blocks": REGISTERS,
    "analysis/kept_rows.py:parts_of_columns": THREADS,
    "analysis/kept_rows.py:tall_lanes": LANES,
    "analysis/kept_rows.py:tall_across": THREADS,
    "analysis/kept_rows.py:is_part_of_warp": THREADS,
    "analysis/kept_rows.py:lies_in_warps": THREADS,
    "analysis/kept_rows.py:are_kept_whole": PERIODS,
    "schedule/images.py:vectors_of_row": LANES,
    "schedule/kept_tiles.py:whole_images": THREADS,
    "analysis/kept_rows.py:blocks_of_image": THREADS,
    "presegment/walk_columns.py:keep_images": THREADS,
    "kernel/kept_ir.py:is_uneven": THREADS,
    "codegen/cluster_text.py:_sent": LANES,
    "codegen/odd_text.py:odd_places": LANES,
    "analysis/odd_columns.py:lanes_of": LANES,
    "schedule/odd_columns.py:odd_axes": SIZES,
    "schedule/kept_columns.py:_odd": SIZES,
    "schedule/kept_columns.py:_planned": LANES,
    "presegment/sum_rows_first.py:_rows_apart": SIZES,
    "presegment/pick_terms.py:_is_near": SIZES,
    "presegment/walk_columns.py:_in_two": SIZES,
    "presegment/plane_forms.py:samples_of": SIZES,
    "presegment/walk_columns.py:_in_samples": PARTS,
    "presegment/walk_columns.py:_of_samples": PARTS,
    "presegment/walk_columns.py:cost": PARTS,
    "codegen/kept_text.py:_first": PARTS,
    "presegment/split_reductions.py:in_parts": THREADS,
    "codegen/beside_text.py:_met_in_shared": THREADS,
    "codegen/column_sums.py:combined_parts": THREADS,
    "codegen/column_text.py:_parts_at_once": THREADS,
    "codegen/image_rows_text.py:_guarded": THREADS,
    "codegen/image_pieces_text.py:copied": LANES,
    "kernel/image_ir.py:piece_rows": PARTS,
    "kernel/image_ir.py:pieces_of": LANES,
    "codegen/image_rows_text.py:_over_pairs": LANES,
    "codegen/image_rows_text.py:own_rows": THREADS,
    "kernel/pairs.py:pairs_of": LANES,
    "kernel/image_ir.py:has_pairs": LANES,
    "codegen/image_text.py:_over_rows": LANES,
    "kernel/image_ir.py:row_count": PARTS,
    "kernel/image_ir.py:vector": LANES,
    "kernel/image_ir.py:held": LANES,
    "kernel/image_accesses.py:images": PARTS,
    "kernel/image_ir.py:of": THREADS,
    "schedule/kept_tiles.py:_in_slots": THREADS,
    "presegment/walk_columns.py:_in_slots": LANES,
    "schedule/gathered_rows.py:_axes": LANES,
    "schedule/gathered_rows.py:_is_multiple": LANES,
    "schedule/gathered_rows.py:_parts": LANES,
    "schedule/groups.py:_axes": LANES,
    "schedule/groups.py:_deal": THREADS,
    "schedule/held_terms.py:held": THREADS,
    "schedule/groups.py:_parts": THREADS,
    "schedule/groups.py:_shifted": LANES,
    "schedule/groups.py:_wide": LANES,
    "analysis/picked_rows.py:shared_bytes": THREADS,
    "schedule/picks.py:_has_slots": THREADS,
    "schedule/picks.py:_rows": THREADS,
    "schedule/picks.py:_threads": THREADS,
    "schedule/picks.py:_vectors": LANES,
    "schedule/nest.py:_at_breaks": PARTS,
    "schedule/nest.py:_digit_split": PARTS,
    "schedule/ordering.py:schedule": THREADS,
    "schedule/own.py:_factor": PARTS,
    "schedule/own.py:_lanes": LANES,
    "schedule/own.py:_looked_up": PARTS,
    "schedule/parameters.py:lanes_of_owners": LANES,
    "schedule/map.py:_beside": LANES,
    "schedule/own_rows.py:_count": PARTS,
    "schedule/own_rows.py:own_rows": PARTS,
    "schedule/residency.py:_fitting": THREADS,
    "schedule/residency.py:_with_room": THREADS,
    "schedule/residency.py:_in_both": THREADS,
    "schedule/residency.py:_preferred": LANES,
    "schedule/residency.py:most": THREADS,
    "schedule/residency.py:_in_one_block": THREADS,
    "schedule/residency.py:_told": THREADS,
    "schedule/residency.py:held_of_edged": THREADS,
    "schedule/walking.py:_spread": THREADS,
    "schedule/walking.py:_of_threads": THREADS,
    "schedule/walking.py:_fill_half": THREADS,
    "schedule/walking.py:_walking": THREADS,
    "schedule/row_splits.py:shared": THREADS,
    "schedule/row_splits.py:walked": THREADS,
    "schedule/rows.py:_alone": THREADS,
    "schedule/staged.py:lies_in_plane": PERIODS,
    "schedule/streams.py:turns": THREADS,
    "schedule/stretches.py:of_stretches": THREADS,
    "schedule/stretches.py:_blocks_alone": THREADS,
    "schedule/stretches.py:alone_in_stretches": LANES,
    "schedule/staged.py:lanes_of": LANES,
    "schedule/stretches.py:_apart": THREADS,
    "schedule/stretches.py:_is_one_a_row": PERIODS,
    "schedule/stretches.py:meetings": BANKS,
    "schedule/row_axes.py:staged": LANES,
    "schedule/rows.py:_axes": PARTS,
    "schedule/row_axes.py:_has_rows": PERIODS,
    "schedule/row_axes.py:holds": PARTS,
    "schedule/row_axes.py:is_inside": PARTS,
    "schedule/row_axes.py:_plane": LANES,
    "schedule/row_axes.py:is_ragged": PARTS,
    "schedule/row_axes.py:_shifted": LANES,
    "schedule/row_axes.py:row_axes": LANES,
    "schedule/row_axes.py:shifted": LANES,
    "schedule/row_axes.py:side_by_side": THREADS,
    "schedule/sides.py:_blocks": THREADS,
    "schedule/sides.py:_of_threads": THREADS,
    "schedule/sides.py:of_sides": THREADS,
    "schedule/runs.py:lengthened": PERIODS,
    "schedule/slabs.py:_of_images": THREADS,
    "schedule/slabs.py:_slab": LANES,
    "schedule/slabs.py:_of_singles": LANES,
    "schedule/slabs.py:_singles": THREADS,
    "schedule/slabs.py:left": LANES,
    "schedule/slabs.py:moved": THREADS,
    "schedule/slabs.py:parts": LANES,
    "schedule/slabs.py:tile": LANES,
    "schedule/slabs.py:_vectors": THREADS,
    "schedule/lagging.py:_lagging": LANES,
    "schedule/lagging.py:_vectors": LANES,
    "schedule/lagging.py:tile": LANES,
    "schedule/sheared.py:lead": LANES,
    "schedule/sheared.py:_sheared": LANES,
    "schedule/sheared.py:side": LANES,
    "schedule/sheared.py:tile": LANES,
    "schedule/tiles.py:moved": LANES,
    "schedule/tiles.py:most_lanes": LANES,
    "schedule/tiles.py:tile": LANES,
    "schedule/vectorize.py:vectorize": LANES,
    "schedule/vectorize.py:lanes_of": LANES,
    "schedule/vectorize.py:_copies_apart": LANES,
    "schedule/vectorize.py:_in_rows_apart": LANES,
    "schedule/vectorize.py:_neighbours": LANES,
    "schedule/flat_stores.py:_traffic": LANES,
    "schedule/vectorize.py:_aligned": LANES,
    "schedule/vectorize.py:elements_at_once": LANES,
    "segment/depth.py:_lines_up": PARTS,
    "kernel/row_ir.py:lanes": LANES,
    "kernel/row_ir.py:stretch_begins": LANES,
    "kernel/rows.py:_shared": LANES,
    "kernel/row_ir.py:threads": THREADS,
    "kernel/vectors.py:_runs": LANES,
    "codegen/row_loops.py:with_inner": LANES,
    "codegen/side_text.py:_met": THREADS,
    "codegen/staged_text.py:_over_vectors": LANES,
    "codegen/staged_text.py:whole_vectors": LANES,
    "codegen/row_threads.py:_side_of_thread": THREADS,
    "codegen/side_text.py:of_batch": THREADS,
    "kernel/row_ir.py:shared_bytes": THREADS,
    "codegen/row_loops.py:_vectors": THREADS,
    "codegen/kept_text.py:_over_rows": THREADS,
    "codegen/row_loops.py:_vectors_of_part": THREADS,
    "codegen/column_text.py:_in_batches": THREADS,
    "codegen/tile_text.py:_loop": THREADS,
    "codegen/tile_text.py:_kept": THREADS,
    "codegen/tile_text.py:_values": THREADS,
    "codegen/tile_text.py:_place": THREADS,
    "codegen/reduce_text.py:combined": THREADS,
    "codegen/stream_text.py:_vectors": THREADS,
    "codegen/reduce_text.py:scanned": THREADS,
}


def test_no_other_module_divides_an_index() -> None:
    found = set(divisions())
    assert found - ALLOWED.keys() == set(), "ask analysis/digits.py, or say what is counted"
    assert ALLOWED.keys() - found == set(), "these divide no longer: take them off the list"


def test_the_index_modules_are_where_division_lives() -> None:
    """The list would prove nothing if the search found nothing."""
    for name in INDEX_DIVISION:
        assert list(_functions(PACKAGE / name)), name


def divisions() -> Iterator[str]:
    """`file:function` of every `//`, `%` and divmod in the compiler but the index modules'."""
    for layer in COMPILER:
        for path in sorted((PACKAGE / layer).rglob("*.py")):
            name = path.relative_to(PACKAGE).as_posix()
            if name not in INDEX_DIVISION:
                yield from (f"{name}:{function}" for function in _functions(path))


def _functions(path: Path) -> Iterator[str]:
    stack: list[tuple[ast.AST, str]] = [(ast.parse(path.read_text()), "")]
    while stack:
        node, owner = stack.pop()
        if isinstance(node, ast.FunctionDef):
            owner = node.name
        if _divides(node):
            yield owner
        stack += [(child, owner) for child in ast.iter_child_nodes(node)]


def _divides(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str()) | ast.JoinedStr()):
            return False  # text % values
        case (
            ast.BinOp(op=ast.FloorDiv() | ast.Mod()) | ast.AugAssign(op=ast.FloorDiv() | ast.Mod())
        ):
            return True
        case ast.Call(func=ast.Name(id="divmod")):
            return True
    return False
