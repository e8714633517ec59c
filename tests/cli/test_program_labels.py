"""Programs of one name are told apart in `opentrn profile -- COMMAND`."""

from opentrn.cli.program import _labels


def test_programs_of_one_name_are_numbered_and_say_what_they_take_and_give():
    rows = [
        {"name": "jit_step", "types": "f32[4] -> f32[4]"},
        {"name": "jit_broadcast_in_dim", "types": "f32[] -> f32[8192,768]"},
        {"name": "jit_broadcast_in_dim", "types": "f32[] -> f32[768]"},
        {"name": "a_name_of_many_many_words_that_is_too_long", "types": "f32[2] -> f32[2]"},
        {"name": "a_name_of_many_many_words_that_is_too_long", "types": ", ".join(["f32[2]"] * 30)},
        {"name": "graph"},  # PyTorch's parts say no types
        {"name": "graph"},
    ]
    labels, legend = _labels(rows)
    assert labels[:3] == ["jit_step", "jit_broadcast_in_dim #1", "jit_broadcast_in_dim #2"]
    assert len(set(labels)) == len(labels) and max(map(len, labels)) <= 31
    assert legend[:2] == [
        "jit_broadcast_in_dim #1: f32[] -> f32[8192,768]",
        "jit_broadcast_in_dim #2: f32[] -> f32[768]",
    ]
    assert len(legend) == 4 and max(map(len, legend)) <= 80
