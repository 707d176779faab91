"""Faults of leat.DataLoader: python/leat/torch, and what frameworks find there."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "a sampler begins before the generators of the state are set",
        "python/leat/torch/reading.py",
        "        self._set_before(at)\n        if self.seeded:\n",
        "        if self.seeded:\n",
        ("property:resume in process",),
        "draws",
    ),
    Mutation(
        "persistent workers are shared by all loaders of a data set object",
        "python/leat/torch/sharing.py",
        'if loader.persistent_workers != "shared" or',
        "if not loader.persistent_workers or",
        ("property:workers",),
        "draws",
    ),
    Mutation(
        "a loader does not go back to its beginning",
        "python/leat/torch/order.py",
        '    return found and found | {"first": True}\n',
        "    return {}\n",
        ("py:test_dataloader_property.py::test_examples_that_failed_once_pass",),
    ),
    Mutation(
        "the state of a sampler is not saved at an epoch's end",
        "python/leat/sampling/known.py",
        '            found["sampler"] = self.stateful.state_dict()\n',
        "            pass\n",
        ("property:resume in process",),
        "draws",
    ),
    Mutation(
        "the state of a sampler is not saved before the first batch",
        "python/leat/torch/reading.py",
        "        if self.stateful is not None or self.began[1] is not None:\n",
        "        if step and (self.stateful is not None or self.began[1] is not None):\n",
        ("property:resume in process",),
        "draws",
    ),
    Mutation(
        "a generator that only the sampler has is not seen, where Accelerate dispatches batches",
        "python/leat/torch/dataloader.py",
        "        return type(sampler) is RandomSampler and sampler.generator is None\n",
        "        return type(sampler) is RandomSampler\n",
        ("property:accelerate",),
        "torch",
    ),
    Mutation(
        "after a resume, a sampler that draws for each batch goes on with other draws",
        "python/leat/torch/reading.py",
        '        for name, state in saved.get("now", {}).items():\n'
        "            self._set(name, state)\n"
        "        if self.theirs and",
        "        if self.theirs and",
        ("property:resume in process",),
        "draws",
    ),
    Mutation(
        "a list that is read for a state is that of the sampler as it is now",
        "python/leat/loading/states.py",
        'sampled.go_back(told.get("again", told))',
        "sampled.go_back(told)",
        ("py:test_sampler_states.py::test_any_state_is_gone_on_from_in_a_new_loader_and_in_the_one_that_took_it",),
    ),
    Mutation(
        "a state that is refused leaves global generators where it has them",
        "python/leat/sampling/sampled.py",
        "            return put_generators_back() or seen\n",
        "            return seen\n",
        ("py:test_sampler_states.py::test_a_state_that_is_refused_leaves_the_generators_of_all_where_they_were",),
    ),
    Mutation(
        "a state out of order from before the first row is one from before the epoch",
        "python/leat/loading/states.py",
        'self._sampled.state(None if within else state["at"]["epoch"], again)',
        'self._sampled.state(state["at"]["epoch"], again)',
        ("py:test_unordered.py::test_a_sampler_is_not_read_again_within_its_epoch",),
    ),
    Mutation(
        "a state has the model that a sampler looks at",
        "python/leat/sampling/generators.py",
        "    torch.nn.Module,\n    torch.optim.Optimizer,\n",
        "",
        ("py:test_sampler_states.py::test_a_state_has_nothing_of_a_model_or_a_loader_that_a_sampler_holds",),
    ),
    Mutation(
        "generators inside samplers are not found",
        "python/leat/sampling/generators.py",
        "    return found | dict(inside)\n",
        "    return found\n",
        ("property:resume in process",),
    ),
    Mutation(
        "a sampler's own count of epochs is lost",
        "python/leat/sampling/known.py",
        "            set_attributes(self.loader, attributes, told)\n",
        "            pass\n",
        ("property:resume in process",),
    ),
    Mutation(
        "how far a sampler is read ahead of workers depends on the window",
        "python/leat/torch/iteration.py",
        "        return int((self.loader.prefetch_factor or 2) * self.loader.num_workers)\n",
        "        return window\n",
        ("property:workers",),
    ),
    Mutation(
        "tensors of types that NumPy lacks cannot be sent",
        "python/leat/workers/transport.py",
        'getattr(torch, f"int{8 * dtype.itemsize}")',
        "{torch.bfloat16: torch.int16}[dtype]",
        ("property:workers",),
        "draws",
    ),
    Mutation(
        "workers refuse an empty batch",
        "python/leat/workers/feed.py",
        "rows = run = max(1, planned.rows)",
        "rows = run = planned.rows",
        ("property:workers",),
    ),
    Mutation(
        "without workers a sampler is read one batch ahead",
        "python/leat/torch/in_process.py",
        "        self.again = None\n        if planned is None:\n",
        "        self.again = None if planned is None else next(self.plan, None)\n        if planned is None:\n",
        ("property:in process",),
    ),
    Mutation(
        "out of order, a stream that stalls stops the others after the window",
        "python/leat/workers/feed.py",
        "        if not self.order:\n            return True\n        head =",
        "        if not self.order:\n"
        "            return True\n"
        "        if self.read[0].step >= self.order[0].planned.step + self.window:\n"
        "            return False\n"
        "        head =",
        ("property:streams",),
    ),
    Mutation(
        "persistent workers of a data pipe end with the first epoch",
        "python/leat/torch/dataloader.py",
        "        if self._piped:\n            return super().__iter__()\n",
        "",
        ("property:streams",),
        "draws",
    ),
    Mutation(
        "persistent workers of a stream draw a seed for each epoch",
        "python/leat/torch/order.py",
        'self.drew = loaded.get("drew", True) if midway else first\n',
        'self.drew = loaded.get("drew", True) if midway else first or not loader._chained\n',
        ("property:streams",),
    ),
    Mutation(
        "the state of a stream is lost at the end of its epoch",
        "python/leat/torch/in_process.py",
        "                self.end_states[0] = copy.deepcopy(state)\n",
        "                pass\n",
        ("property:resume streams",),
        "draws",
    ),
    Mutation(
        "batches that are skipped leave the generators as they were",
        "python/leat/torch/reading.py",
        "            planned = self.pending.popleft() if self.pending else self._read()\n",
        "            before = {name: state_of(generator) for name, generator in self.generators.items()}\n"
        "            planned = self.pending.popleft() if self.pending else self._read()\n"
        "            for name in before if self.saved is None and planned.step < self.passed else ():\n"
        "                set_state(self.generators[name], before[name])\n",
        ("property:accelerate",),
        "torch",
    ),
    Mutation(
        "all ranks of Accelerate load the state of one",
        "python/leat/accelerate.py",
        "    _save_for_each_rank()\n",
        "",
        (
            "py:test_frameworks_accelerate.py"
            "::test_a_saved_state_of_any_sampler_that_draws_goes_on_as_if_nothing_had_happened",
        ),
        "torch",
    ),
    Mutation(
        "Lightning resumes a limited epoch at its end with what the limit left out",
        "python/leat/lightning.py",
        "        loader._leave_epoch()\n",
        "        pass\n",
        (
            "py:test_frameworks_lightning.py"
            "::test_two_ranks_resumed_from_the_end_of_a_limited_epoch_go_on_with_the_next_one",
        ),
        "torch",
    ),
]
