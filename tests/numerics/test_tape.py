"""Tapes: a recorded linear program gives what it recorded, and refuses what it cannot repeat."""

import pytest
import torch
from penchant_numerics.jacobians import NotRecordableError
from penchant_numerics.jacobians.tape import Tape

DOUBLE = {"device": "cpu", "dtype": torch.float64}


def random(*shape, seed=0):
    stream = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(shape, generator=stream, **DOUBLE)


def recorded(program, tangents):
    tape = Tape(tangents)
    with tape:
        result = program(*tangents)
    tape.finish(result)
    return tape


def test_a_tape_is_linear_in_other_tangents():
    values = random(3, 4)
    tape = recorded(lambda a, b: values @ a + 2 * b.sum(0), [random(4), random(5, 3)])
    other = [random(4, seed=1), random(5, 3, seed=2)]
    torch.testing.assert_close(tape.play(other), values @ other[0] + 2 * other[1].sum(0))
    torch.testing.assert_close(tape.play([3 * each for each in other]), 3 * tape.play(other))


def test_views_are_the_tensor_they_are_views_of():
    tape = recorded(lambda a: a.view(2, 3).T[1:].reshape(-1) * 2, [random(6)])
    other = random(6, seed=1)
    torch.testing.assert_close(tape.play([other]), other.view(2, 3).T[1:].reshape(-1) * 2)


def test_several_outputs_of_one_step_have_slots_of_their_own():
    def program(a):
        first, second = a.split(3)
        return first - 2 * second

    tape = recorded(program, [random(6)])
    other = random(6, seed=1)
    torch.testing.assert_close(tape.play([other]), other[:3] - 2 * other[3:])


def test_steps_that_do_not_reach_the_result_are_dropped():
    def program(a):
        _ = (a * 7).sum()
        return a + a

    assert len(recorded(program, [random(3)]).steps) == 1


def test_a_tangent_changed_in_place_is_changed_again():
    def program(a):
        total = a * 1
        total.mul_(3)
        return total

    tape = recorded(program, [random(3)])
    assert tape.writes
    other = random(3, seed=1)
    kept = other.clone()
    torch.testing.assert_close(tape.play([other]), 3 * kept)
    assert torch.equal(other, kept)


def test_values_that_steps_need_may_not_change():
    values = random(3)

    def program(a):
        product = values * a
        values.add_(1)
        return product

    with pytest.raises(NotRecordableError, match="changes in place a value"):
        recorded(program, [random(3)])


def test_what_reads_a_number_out_of_a_tangent_cannot_be_recorded():
    with pytest.raises(NotRecordableError, match="reads out of"):
        recorded(lambda a: a * float(a[0]), [random(3)])
    target = random(3)
    with pytest.raises(NotRecordableError, match="not a tangent"):
        recorded(lambda a: target.copy_(a), [random(3)])


def test_a_result_that_no_tangent_made_is_refused():
    tape = Tape([random(3)])
    with tape:
        pass
    with pytest.raises(NotRecordableError, match="was not recorded"):
        tape.finish(random(3, seed=1))


def test_constants_are_the_storages_that_steps_use():
    values = random(3, 4)
    tape = recorded(lambda a: values @ a + values[0, 0] * a[:3], [random(4)])
    assert sum(tape.constants().values()) == values.untyped_storage().nbytes()
