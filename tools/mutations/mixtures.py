"""Faults of python/leat/mixtures: algorithms that steer a mixture, and the log of what was decided."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "a repeated log is forgotten where a state of its run is loaded",
        "python/leat/mixtures/decisions.py",
        "        if self.repeats and not self.lost:\n",
        "        if self.repeats and self.lost:\n",
        ("py:test_long_logs.py::test_a_repeated_run_goes_on_from_a_state_of_the_run_that_decided",),
    ),
    Mutation(
        "smoothing gives a domain without a weight one",
        "python/leat/mixtures/doremi.py",
        "new + share * (w > 0) for w, new",
        "new + share for w, new",
        ("py:test_mixture_algorithms.py::test_doremi_leaves_a_domain_without_a_weight_without_one",),
    ),
    Mutation(
        "a long curve keeps its points as densely as before",
        "python/leat/mixtures/curve.py",
        "            self.keep_every *= 2\n",
        "",
        ("py:test_mixture_algorithms.py::test_a_long_curve_keeps_points_over_its_whole_length",),
    ),
    Mutation(
        "a cut number at the end of a saved curve is ignored",
        "python/leat/mixtures/curve.py",
        "    if shift or len(values) % 2:\n",
        "    if len(values) % 2:\n",
        ("py:test_mixture_algorithms.py::test_a_damaged_curve_is_an_error",),
    ),
    Mutation(
        "a decision holds one step too early",
        "python/leat/mixtures/steering.py",
        "at = max((place[0], place[1] + self._lead), self.decisions.place)",
        "at = max((place[0], place[1] + self._lead - 1), self.decisions.place)",
        ("py:test_mixture_reports.py::test_ado_decides_at_refits_only_and_from_the_step_that_lead_says",),
    ),
    Mutation(
        "a step may be reported twice",
        "python/leat/mixtures/steering.py",
        "if self._reported is not None and place <= self._reported:",
        "if self._reported is not None and place < self._reported:",
        ("py:test_mixture_reports.py::test_reports_come_in_order_of_steps_that_were_handed_out",),
    ),
    Mutation(
        "weights hold from the step behind that for which they were set",
        "python/leat/mixtures/decisions.py",
        "        i = bisect_right(self._places, place)\n",
        "        i = bisect_right(self._places, (place[0], place[1] - 1))\n",
        ("py:test_mixture_reports.py::test_weights_may_be_set_for_a_later_step",),
    ),
    Mutation(
        "the log of another run in the same folder is replaced",
        "python/leat/mixtures/decisions.py",
        '                    os.replace(path, path + ".old")  # of another run\n',
        "                    os.unlink(path)\n",
        ("py:test_mixture_logs.py::test_a_file_of_another_run_is_put_aside",),
    ),
    Mutation(
        "a domain that was not measured loses its excess",
        "python/leat/mixtures/doremi.py",
        "            if name in losses:\n"
        "                self.excess[k] = max(losses[name] - (self.reference[name] if self.reference else 0.0), 0.0)\n",
        "            of = self.reference[name] if self.reference else 0.0\n"
        "            self.excess[k] = max(losses.get(name, of) - of, 0.0)\n",
        ("py:test_mixture_algorithms.py::test_a_domain_that_is_not_measured_keeps_its_last_excess_in_doremi",),
    ),
]
