"""What the property tests draw: sizes, worlds, tails, seeds, histories of resizes."""

from __future__ import annotations

from hypothesis import strategies as st

from elastic_sampler.share import TAILS

sample_counts = st.integers(0, 300)
world_sizes = st.integers(1, 64)
tails = st.sampled_from(TAILS)
seeds = st.integers(-(2**70), 2**70)
epochs = st.integers(0, 1000)
start_ranks = st.integers(-100, 100)

# (world size, steps): the rest of the epoch follows at one more world size.
histories = st.lists(st.tuples(world_sizes, st.integers(1, 20)), max_size=10)
batch_sizes = st.integers(1, 9)
