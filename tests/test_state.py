"""States: JSON values only, strict about every field, and nothing is half applied."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import epochs, sample_counts, seeds

from elastic_sampler import ElasticDistributedSampler, State, StateError, World

GOOD: dict[str, Any] = {
    "version": 1,
    "epoch": 3,
    "position": 40,
    "num_samples": 100,
    "seed": 0,
    "order": "sequential",
    "origin": 7,
}


@given(epochs, sample_counts, seeds, st.data())
def test_a_state_survives_json_unchanged(
    epoch: int, n: int, seed: int, data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, n + 70)) if n else 0
    origin = data.draw(st.integers(0, n - 1)) if position else None
    state = State(epoch, position, n, seed, "sequential", origin)

    assert state == State.from_dict(json.loads(json.dumps(state.to_dict())))
    assert len(json.dumps(state.to_dict())) < 500


BAD = [
    ({"version": 2}, "version must be 1"),
    ({"version": "1"}, "version must be an integer, got '1'"),
    ({"epoch": -1}, "epoch must be at least 0, got -1"),
    ({"epoch": True}, "epoch must be an integer, got True"),
    ({"epoch": None}, "epoch must be an integer, got None"),
    ({"epoch": 1.0}, r"epoch must be an integer, got 1\.0"),
    ({"position": -5}, "position must be at least 0, got -5"),
    ({"position": 2**63}, r"position must be less than 2\*\*63, got 9223372036854775808"),
    ({"position": "40"}, "position must be an integer, got '40'"),
    ({"num_samples": -1}, "num_samples must be at least 0"),
    ({"num_samples": 2**62 + 1}, r"num_samples must be at most 2\*\*62"),
    ({"num_samples": 0}, "position must be 0 where num_samples is 0, got 40"),
    ({"seed": None}, "seed must be an integer, got None"),
    ({"order": 5}, "order must be a string, got 5"),
    ({"origin": None}, r"origin must be an integer in \[0, 100\), got None"),
    ({"origin": 100}, r"origin must be an integer in \[0, 100\), got 100"),
    ({"origin": False}, r"origin must be an integer in \[0, 100\), got False"),
    ({"position": 0}, "origin must be None where position is 0, got 7"),
    ({"rank": 3}, r"unknown keys \[\"'rank'\"\]"),
    # These are well-formed, and do not fit the sampler below.
    ({"num_samples": 80}, "num_samples of the state is 80, but this sampler's is 100"),
    ({"num_samples": 120}, "num_samples of the state is 120, but this sampler's is 100"),
    ({"order": "shuffled/1"}, "order of the state is 'shuffled/1', .* is 'sequential'"),
]


@pytest.mark.parametrize(("change", "told"), BAD)
def test_a_bad_state_is_refused_by_field_and_leaves_the_sampler_as_it_was(
    change: dict[str, Any], told: str
) -> None:
    sampler = ElasticDistributedSampler(100, world=World(1, 4))
    sampler.load_state_dict({**GOOD, "position": 8})
    iterator = iter(sampler)
    taken = [next(iterator)]
    sampler.advance()
    before = sampler.state_dict()

    with pytest.raises(StateError, match=told):
        sampler.load_state_dict({**GOOD, **change})

    assert before == sampler.state_dict()
    taken += iterator
    assert list(range(9 + 7, 100 + 7, 4)) == [t + 100 * (t < 16) for t in taken]


@pytest.mark.parametrize("name", GOOD)
def test_a_missing_key_is_named(name: str) -> None:
    state = {key: value for key, value in GOOD.items() if key != name}

    with pytest.raises(StateError, match=rf"missing keys \['{name}'\]"):
        State.from_dict(state)


@pytest.mark.parametrize("state", [None, [], 5, "epoch"])
def test_something_else_than_a_dict_is_refused(state: Any) -> None:
    with pytest.raises(StateError, match="state must be a dict, got"):
        State.from_dict(state)


def test_the_seed_must_agree_where_the_order_uses_it() -> None:
    state = {**GOOD, "order": "shuffled/1", "origin": 0}
    shuffled = ElasticDistributedSampler(100, shuffle=True, seed=1, world=World(0, 1))
    with pytest.raises(StateError, match="seed of the state is 0, but this sampler's is 1"):
        shuffled.load_state_dict(state)

    unshuffled = ElasticDistributedSampler(100, seed=1, world=World(0, 1))
    unshuffled.load_state_dict(GOOD)
    assert list(range(47, 100)) + list(range(7)) == list(unshuffled)


def test_only_unshuffled_epochs_have_an_origin() -> None:
    sampler = ElasticDistributedSampler(100, shuffle=True, world=World(0, 1))

    with pytest.raises(StateError, match=r"origin of the state is 7, .* it must be 0"):
        sampler.load_state_dict({**GOOD, "order": "shuffled/1"})


def test_between_epochs_data_seed_and_order_may_change() -> None:
    for position, origin, epoch in ((0, None, 3), (100, 7, 4), (99_999, 7, 4)):
        sampler = ElasticDistributedSampler(50, shuffle=True, seed=9, world=World(0, 1))
        sampler.load_state_dict({**GOOD, "position": position, "origin": origin})
        fresh = ElasticDistributedSampler(
            50, shuffle=True, seed=9, start_epoch=epoch, world=World(0, 1)
        )

        assert list(fresh) == list(sampler)


def test_numpy_integers_become_python_ints() -> None:
    numpy = pytest.importorskip("numpy", reason="needs NumPy")
    state = {**GOOD, "position": numpy.int64(40), "epoch": numpy.int32(3)}
    loaded = State.from_dict(state)

    assert State.from_dict(GOOD) == loaded
    assert (int, int) == (type(loaded.position), type(loaded.epoch))
    sampler = ElasticDistributedSampler(numpy.int64(10), seed=numpy.int64(1), world=World(0, 1))
    assert sampler.state_dict() == json.loads(json.dumps(sampler.state_dict()))
    assert all(type(index) is int for index in sampler)


def test_compare_names_the_fields_in_which_ranks_differ() -> None:
    assert {} == State.compare([GOOD, dict(GOOD)])
    assert {} == State.compare([])
    assert {"position": [40, 40, 41]} == State.compare([GOOD, GOOD, {**GOOD, "position": 41}])
    assert {"more": [None, 1]} == State.compare([GOOD, {**GOOD, "more": 1}])


def test_fingerprints_differ_where_ranks_must_agree() -> None:
    def fingerprint(rank: int = 0, size: int = 2, epoch: int = 0, **kwargs: Any) -> str:
        n = kwargs.pop("n", 10)
        sampler = ElasticDistributedSampler(n, world=World(rank, size), **kwargs)
        sampler.set_epoch(epoch)
        return sampler.fingerprint()

    prints = [
        fingerprint(),
        fingerprint(n=11),
        fingerprint(size=3),
        fingerprint(epoch=1),
        fingerprint(shuffle=True),
        fingerprint(shuffle=True, seed=1),
        fingerprint(tail="drop"),
        fingerprint(order=lambda epoch: range(10)),
    ]
    assert len(prints) == len(set(prints))
    assert fingerprint() == fingerprint(rank=1)
    assert 16 == len(fingerprint())
