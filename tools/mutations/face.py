"""Faults of the top-level modules of python/leat, and of its privacy."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "True is taken for the integer 1",
        "python/leat/check.py",
        "number = None if isinstance(value, bool) else operator.index(value)",
        "number = operator.index(value)",
        ("py:test_loader.py::test_an_argument_of_another_type_is_a_type_error_that_names_it", "py:test_ops.py"),
    ),
    Mutation(
        "photos to evaluate are resized to the size of the crop",
        "python/leat/presets.py",
        "ops.Resize(resize or round(size * 256 / 224), interpolation),",
        "ops.Resize(size, interpolation),",
        ("py:test_presets.py::test_imagenet_eval_is_torchvisions",),
    ),
    Mutation(
        "both views are solarized alike",
        "python/leat/presets.py",
        "*([ops.RandomSolarize(128, solarize)] if solarize else []),",
        "ops.RandomSolarize(128, solarize or 0.2),",
        ("py:test_presets.py::test_views_differ_and_are_as_published",),
    ),
    Mutation(
        "noise is 0 twice as often as it should be",
        "python/leat/privacy/noise.py",
        "        if not (negative and x == 0):\n            return -x if negative else x\n",
        "        return -x if negative else x\n",
        ("py:test_privacy.py::test_noise_over_the_integers_has_the_distributions_that_it_should",),
    ),
    Mutation(
        "more delta may be spent than there is",
        "python/leat/privacy/budget.py",
        "if more[0] > self.epsilon * rounding or more[1] > self.delta * rounding:",
        "if more[0] > self.epsilon * rounding:",
        (
            "py:test_privacy.py::test_counters_take_what_they_spend_from_a_budget",
            "py:test_privacy.py::test_what_cannot_be_is_refused_before_anything_changes",
        ),
    ),
    Mutation(
        "names may be given as a set, whose order is another each time",
        "python/leat/check.py",
        "isinstance(value, (str, bytes, Mapping, AbstractSet))",
        "isinstance(value, (str, bytes, Mapping))",
        ("py:test_writer.py::test_options_of_another_type_are_a_type_error_that_names_them",),
    ),
]
