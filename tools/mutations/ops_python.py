"""Faults of python/leat/ops: what operators take, and what transforms of torchvision become."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "an operator that makes labels draws anew in a second chain",
        "python/leat/program.py",
        "    if id(op) not in parts:\n",
        "    if True:\n",
        ("py:test_token_ops.py::test_an_operator_in_two_chains_hides_the_same_tokens_in_both",),
    ),
    Mutation(
        "a magnitude beyond the last bin is taken",
        "python/leat/ops/policies.py",
        "if self.magnitude >= self.num_magnitude_bins:",
        "if self.magnitude > self.num_magnitude_bins:",
        ("py:test_policies.py::test_forms_and_arguments_of_policies",),
    ),
    Mutation(
        "a function in Python stands in a branch",
        "python/leat/ops/branches.py",
        "    if isinstance(op, (Map, Native)):\n",
        "    if isinstance(op, Native):\n",
        ("py:test_branches.py::test_wrong_branches_are_refused_with_the_place",),
    ),
    Mutation(
        "operators of different names are equal",
        "python/leat/ops/base.py",
        "return type(self) is type(other) and self._values == other._values and self.name == other.name",
        "return type(self) is type(other) and self._values == other._values",
        ("py:test_ops.py::test_operators_are_equal_by_value_and_told_apart_by_name",),
    ),
    Mutation(
        "masks are filled with the gray of images",
        "python/leat/ops/arguments.py",
        '{"image": image, "mask": 0}',
        '{"image": image, "mask": image}',
        (
            "py:test_ops.py::test_a_fill_of_masks_alone_keeps_the_gray_of_images",
            "py:test_from_torchvision.py::test_a_fill_by_kind_keeps_that_of_masks",
            "py:test_mosaic.py",
        ),
    ),
    Mutation(
        "the padding of a crop of torchvision's v2 is turned",
        "python/leat/ops/convert.py",
        "left, right, top, bottom = value  # as v2 keeps it",
        "left, top, right, bottom = value",
        ("py:test_from_torchvision.py::test_padding_of_random_crop_is_in_the_order_of_its_version",),
    ),
    Mutation(
        "an operator that fills with gray is moved before what makes floats",
        "python/leat/ops/convert.py",
        "    return black and needs is not None",
        "    return (black or True) and needs is not None",
        ("py:test_from_torchvision.py::test_what_counts_in_floats_keeps_to_tensor_before_it",),
    ),
    Mutation(
        "a shift of more than the whole image is taken",
        "python/leat/ops/geometry.py",
        "if len(shift) != 2 or min(shift) < 0 or max(shift) > 1:",
        "if len(shift) != 2 or min(shift) < 0:",
        ("py:test_geometry.py::test_arguments_are_those_of_torchvision",),
    ),
    Mutation(
        "labels_getter=None is taken for no word that there is",
        "python/leat/ops/targets.py",
        'if labels == "default":\n',
        'if labels in ("default", None):\n',
        ("py:test_targets.py::test_without_a_getter_of_labels_only_what_has_a_role_goes_with_the_boxes",),
    ),
]
