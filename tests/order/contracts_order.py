"""What every `Order` promises."""

import pickle

import numpy as np
import pytest

from roboreel.errors import RowNotFoundError


class OrderContract:
    """``order`` draws from the samples ``0 … num_rows - 1``."""

    num_rows: int

    @pytest.fixture
    def order(self):
        raise NotImplementedError

    def whole(self, order, epoch=0):
        return order.samples(epoch, np.arange(order.num_samples))

    def test_an_epoch_is_made_of_samples_that_exist(self, order):
        samples = self.whole(order)
        assert samples.dtype == np.int64
        assert samples.shape == (order.num_samples,)
        assert samples.min() >= 0
        assert samples.max() < self.num_rows

    def test_positions_may_be_asked_for_in_any_portions_and_any_order(self, order):
        positions = np.random.default_rng(0).permutation(order.num_samples)
        parts = [order.samples(3, part) for part in np.array_split(positions, 7)]
        assert np.array_equal(np.concatenate(parts), self.whole(order, 3)[positions])

    def test_a_position_may_be_asked_for_twice(self, order):
        assert np.array_equal(order.samples(1, np.array([4, 4])), self.whole(order, 1)[[4, 4]])

    def test_no_position_gives_no_sample(self, order):
        assert order.samples(0, np.empty(0, np.int64)).shape == (0,)

    def test_another_process_has_the_same_order(self, order):
        copy = pickle.loads(pickle.dumps(order))
        assert copy.num_samples == order.num_samples
        assert np.array_equal(self.whole(copy, 5), self.whole(order, 5))

    @pytest.mark.parametrize("beyond", [-1, 0])
    def test_a_position_outside_the_epoch_is_named(self, order, beyond):
        position = beyond if beyond < 0 else order.num_samples
        with pytest.raises(RowNotFoundError, match=f"Position {position} does not exist"):
            order.samples(0, np.array([0, position]))


class ShuffleContract(OrderContract):
    """An order that differs between epochs."""

    def test_epochs_differ(self, order):
        assert not np.array_equal(self.whole(order, 0), self.whole(order, 1))


class PermutationContract(OrderContract):
    """An order that visits every sample once."""

    def test_an_epoch_has_every_sample_once(self, order):
        assert np.sort(self.whole(order, 2)).tolist() == list(range(self.num_rows))
