"""Views: every view method against the same operation on a numpy array, and the rules it must refuse."""

from __future__ import annotations

import numpy as np
import pytest

from opentrn.errors import NkiValidationError, OutOfBounds
from opentrn.oracle import isa as nisa
from opentrn.types.shapes import DynamicSlice


@pytest.fixture
def tile(tiles):
    return tiles.of(np.arange(8 * 4 * 6, dtype=np.float32).reshape(8, 4, 6))


def test_fresh_memory_is_nan_or_four(machine):
    assert np.isnan(machine.ndarray((2, 3), "bfloat16").numpy().astype(np.float32)).all()
    assert (machine.ndarray((2, 3), "int32").numpy() == 4).all()


def test_on_chip_integer_index_keeps_the_partition_and_rank_two(tile):
    data = tile.numpy()
    np.testing.assert_array_equal(tile[3].numpy(), data[3:4])
    np.testing.assert_array_equal(tile[:, 1].numpy(), data[:, 1])
    flat = tile.reshape((8, 24))
    assert flat[:, 5].shape == (8, 1)
    assert flat[2, -1].shape == (1, 1)
    np.testing.assert_array_equal(flat[2, -1].numpy(), data.reshape(8, 24)[2:3, -1:])


def test_hbm_integer_index_drops_the_dimension(machine):
    array = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    tensor = machine.from_array(array)
    np.testing.assert_array_equal(tensor[1].numpy(), array[1])
    np.testing.assert_array_equal(tensor[1, :, 2].numpy(), array[1, :, 2])
    assert tensor[1, 2, 3].shape == (1,)


@pytest.mark.parametrize(
    "key",
    [
        np.s_[:, 1:3],
        np.s_[2:6, :, ::2],
        np.s_[..., 1:5:3],
        np.s_[-4:, -2:, :],
    ],
)
def test_slices_match_numpy(tile, key):
    np.testing.assert_array_equal(tile[key].numpy(), tile.numpy()[key])


def test_dynamic_slices_take_registers(tile):
    start = nisa.register_alloc(2)
    np.testing.assert_array_equal(tile[:, DynamicSlice(start, 2)].numpy(), tile.numpy()[:, 2:4])
    np.testing.assert_array_equal(tile[:, start].numpy(), tile.numpy()[:, 2])


@pytest.mark.parametrize("key", [np.s_[0:9], np.s_[:, 4:4], np.s_[:, :, 7], np.s_[8], np.s_[:, -5]])
def test_indices_outside_the_tensor_are_refused(tile, key):
    with pytest.raises(OutOfBounds):
        tile[key]


def test_view_methods_match_numpy(tile):
    data = tile.numpy()
    np.testing.assert_array_equal(tile.permute((0, 2, 1)).numpy(), data.transpose(0, 2, 1))
    np.testing.assert_array_equal(tile.reshape_dim(2, (2, -1)).numpy(), data.reshape(8, 4, 2, 3))
    np.testing.assert_array_equal(tile.flatten_dims(1, 2).numpy(), data.reshape(8, 24))
    np.testing.assert_array_equal(tile.reshape((8, 2, 12)).numpy(), data.reshape(8, 2, 12))
    np.testing.assert_array_equal(tile.slice(1, 1, 4, 2).numpy(), data[:, 1:4:2])
    np.testing.assert_array_equal(tile.select(2, 3).numpy(), data[:, :, 3])
    np.testing.assert_array_equal(tile.expand_dim(1).numpy(), data[:, None])
    np.testing.assert_array_equal(tile.expand_dim(3).squeeze_dim(3).numpy(), data)
    repeated = tile.expand_dim(2).broadcast(2, 5).numpy()
    np.testing.assert_array_equal(repeated, np.broadcast_to(data[:, :, None], (8, 4, 5, 6)))


def test_views_share_storage(tile):
    tile.permute((0, 2, 1))[1, 2, 3].numpy()[...] = -7
    assert tile.numpy()[1, 3, 2] == -7


def test_rearrange_splits_permutes_and_merges(tiles):
    data = np.arange(4 * 24, dtype=np.float32).reshape(4, 24)
    view = tiles.of(data).rearrange(("b", ("h", "w")), ("b", "w", "h"), {"h": 4})
    np.testing.assert_array_equal(view.numpy(), data.reshape(4, 4, 6).transpose(0, 2, 1))
    merged = tiles.of(data).rearrange(("b", ("h", "w")), ("b", ("h", "w")), {"h": 4})
    assert merged.shape == (4, 24)


@pytest.mark.parametrize(
    "broken",
    [
        lambda t: t.permute((1, 0, 2)),
        lambda t: t.permute((0, 1)),
        lambda t: t.broadcast(1, 2),
        lambda t: t.expand_dim(0),
        lambda t: t.squeeze_dim(1),
        lambda t: t.reshape((4, 48)),
        lambda t: t.reshape((8, 23)),
        lambda t: t.flatten_dims(0, 1),
        lambda t: t.permute((0, 2, 1)).flatten_dims(1, 2),
        lambda t: t[:, :, 0:3].reshape((8, 12)),
        lambda t: t.vector_select(0, t),
        lambda t: t.ap([[48, 4], [1, 24]]),  # every other partition
    ],
)
def test_views_that_the_memory_cannot_express_are_refused(tile, broken):
    with pytest.raises(NkiValidationError):
        broken(tile)


def test_contiguity_ignores_the_partition_dimension(tile):
    assert tile.is_contiguous()
    assert tile[2:4].is_contiguous()
    assert not tile[:, 0:2, 0:3].is_contiguous()
    assert tile[:, 1:2, 0:3].is_contiguous()


def test_pattern_and_offset_of_a_slice_as_documented(tiles):
    view = tiles.empty((128, 64)).slice(1, 8, 24)
    assert view.get_pattern() == [[64, 128], [1, 16]]
    assert view.offset == 8


def test_ap_addresses_the_storage(tiles):
    data = np.arange(16 * 16, dtype=np.float32).reshape(16, 16)
    view = tiles.of(data).ap(pattern=[[16, 16], [1, 8]], offset=8)
    np.testing.assert_array_equal(view.numpy(), data[:, 8:])
    overlapping = tiles.of(data).ap(pattern=[[16, 4], [2, 3], [1, 4]], offset=1)
    expected = [[[data[p, 1 + 2 * i + j] for j in range(4)] for i in range(3)] for p in range(4)]
    np.testing.assert_array_equal(overlapping.numpy(), expected)


def test_ap_on_a_view_keeps_its_offset_and_ignores_its_strides(tiles):
    data = np.arange(4 * 8, dtype=np.float32).reshape(4, 8)
    view = tiles.of(data)[2:4, 2:8:2]
    np.testing.assert_array_equal(view.ap([[8, 2], [1, 3]]).numpy(), data[2:4, 2:5])
    np.testing.assert_array_equal(view.ap([[8, 2], [1, 3]], offset=1).numpy(), data[2:4, 3:6])


def test_ap_reinterprets_with_counts_in_the_new_dtype(tiles):
    data = np.arange(4 * 8, dtype=np.int32).reshape(4, 8)
    view = tiles.of(data).ap([[16, 4], [1, 16]], dtype="uint16")
    np.testing.assert_array_equal(view.numpy(), data.view(np.uint16))


def test_an_ap_past_the_storage_is_refused_when_read(tiles):
    with pytest.raises(OutOfBounds):
        tiles.empty((4, 8)).ap([[8, 4], [1, 9]]).numpy()


def test_view_scales_the_last_dimension(tiles):
    data = np.arange(4 * 8, dtype=np.float32).reshape(4, 8)
    tile = tiles.of(data)
    assert tile.view("uint8").shape == (4, 32)
    np.testing.assert_array_equal(tile.view("int32").numpy(), data.view(np.int32))
    np.testing.assert_array_equal(tile.view("uint16")[:, 2:6].view("float32").numpy(), data[:, 1:3])
    with pytest.raises(NkiValidationError):
        tile[:, ::2].view("uint8")
    with pytest.raises(NkiValidationError):
        tile.view("uint8")[:, 0:6].view("float32")


def test_scalar_offset_scales_by_the_base_stride(machine, tiles):
    base = np.arange(6 * 4, dtype=np.float32).reshape(6, 4)
    index = tiles.of([[3]], "int32")
    view = machine.from_array(base).ap([[4, 2], [1, 3]], scalar_offset=index, indirect_dim=0)
    assert view.is_indirect()
    np.testing.assert_array_equal(view.numpy_or_gather(), base[3:5, :3])
    index.numpy()[...] = 1  # read when used
    np.testing.assert_array_equal(view.numpy_or_gather(), base[1:3, :3])
    index.numpy()[...] = 5  # the second row is past the end
    with pytest.raises(OutOfBounds):
        view.numpy_or_gather()


def test_dynamic_select_by_tensor_and_by_register(machine, tiles):
    base = np.arange(4 * 3 * 5, dtype=np.float32).reshape(4, 3, 5)
    tensor = machine.from_array(base)
    index = tiles.of([[2]], "int32")
    np.testing.assert_array_equal(tensor.select(0, index).numpy_or_gather(), base[2])
    np.testing.assert_array_equal(tensor[index].numpy_or_gather(), base[2])
    np.testing.assert_array_equal(tensor[1:3, index].numpy_or_gather(), base[1:3, 2])
    register = nisa.register_alloc(1)
    np.testing.assert_array_equal(tensor.select(1, register).numpy_or_gather(), base[:, 1])
    with pytest.raises(NkiValidationError):
        tensor.select(0, index).select(0, index)


def test_vector_select_reads_one_row_per_partition(machine, tiles):
    base = np.arange(6 * 4, dtype=np.float32).reshape(6, 4)
    rows = np.array([[5], [0], [5]], np.int32)
    view = machine.from_array(base).vector_select(0, tiles.of(rows))
    np.testing.assert_array_equal(view.numpy_or_gather(), base[rows[:, 0]])
    np.testing.assert_array_equal(view[:, 1:3].numpy_or_gather(), base[rows[:, 0], 1:3])
    with pytest.raises(NkiValidationError):
        view[0:2]


def test_tensor_indirection_reads_columns_in_snake_order(tiles_v4):
    data = np.arange(32 * 10, dtype=np.float32).reshape(32, 10)
    index = np.zeros((32, 2), np.int32)
    first, second = [7, 1, 1, 9], [0, 2, 4, 6]  # one list per group of 16 partitions
    index[:4, 0], index[16:20, 0] = first, second
    view = tiles_v4.of(data).indirect(tiles_v4.of(index), num_elem=4)
    np.testing.assert_array_equal(view.numpy_or_gather()[:16], data[:16][:, first])
    np.testing.assert_array_equal(view.numpy_or_gather()[16:], data[16:][:, second])
    wide = tiles_v4.of(np.tile(np.arange(16)[:, None], (1, 2)) % 10, "int32")
    snake = tiles_v4.of(data[:16]).indirect(wide)
    assert snake.shape == (16, 32)


def test_setitem_copies_with_one_rounding(tiles):
    tile = tiles.empty((2, 4), "bfloat16")
    tile[...] = 1.0 + 2.0**-9
    tile[:, 1:3] = tiles.of(np.full((2, 2), 5.0, np.float32))
    np.testing.assert_array_equal(tile.numpy().astype(np.float32), [[1, 5, 5, 1]] * 2)


def test_ap_on_part_of_each_partition_takes_the_row_of_the_view(tiles):
    data = np.arange(4 * 8, dtype=np.float32).reshape(4, 8)
    right_half = tiles.of(data)[:, 4:8]
    np.testing.assert_array_equal(right_half.ap([[4, 4], [1, 3]], offset=1).numpy(), data[:, 5:8])
    np.testing.assert_array_equal(right_half.ap([[4, 2], [1, 2]], offset=4).numpy(), data[1:3, 4:6])
    with pytest.raises(NkiValidationError):
        tiles.of(data)[:, 0:8:2].ap([[4, 4], [1, 3]])  # its rows are not one run
