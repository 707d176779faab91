/* Loaders: opening, closing, and what they can do beyond reading (consumer.c). */
#include "leat/feedback.h"
#include "leat_py.h"

struct loader {
    struct py_reader reader;
    struct leat_loader *handle; /* NULL: closed */
    PyObject *functions;        /* keeps what the loader's threads call until they no longer do */
    PyObject *executor;         /* of functions in Python; NULL: there are none */
};

static const char *const keywords[] = {"dataset",
                                       "batch_size",
                                       "global_batch_size",
                                       "order",
                                       "block_rows",
                                       "weights",
                                       "num_samples",
                                       "replacement",
                                       "positions",
                                       "seed",
                                       "epochs",
                                       "tail",
                                       "rank",
                                       "world_size",
                                       "local_ranks",
                                       "on_error",
                                       "error_report",
                                       "num_threads",
                                       "budget_bytes",
                                       "max_held_bytes",
                                       "weight",
                                       "program",
                                       "region",
                                       "log_dir",
                                       "functions",
                                       "in_order",
                                       "pack",
                                       "executor",
                                       "mix",
                                       "buckets",
                                       "decided",
                                       NULL};

struct leat_native *py_native_table(PyObject *list)
{
    Py_ssize_t n = PyList_Size(list);
    struct leat_native *table = n < 0 ? NULL : PyMem_Calloc((size_t)n + 1, sizeof *table);
    if (!table)
        return n < 0 ? NULL : (struct leat_native *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        unsigned long long address;
        int flat;
        PyObject *owner;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "KpO", &address, &flat, &owner)) {
            PyMem_Free(table);
            return NULL;
        }
        if (flat)
            table[i].flat = (leat_native_flat_fn)(uintptr_t)address;
        else
            table[i].call = (leat_native_fn)(uintptr_t)address;
    }
    return table;
}

/* (field, length, bos or None, eos or None, fill, how, seed, multiple) as the library takes it; the field's name stays
 * that of the tuple. */
static bool parse_pack(PyObject *tuple, struct leat_pack_options *pack)
{
    PyObject *tokens[3];
    int64_t *to[3] = {&pack->bos, &pack->eos, &pack->fill};
    unsigned long long length, seed = 0, multiple = 0;
    int how = LEAT_PACK_CUT;
    if (!PyArg_ParseTuple(tuple, "sKOOO|iKK:pack", &pack->field, &length, &tokens[0], &tokens[1], &tokens[2], &how,
                          &seed, &multiple))
        return false;
    pack->length = length;
    pack->how = (enum leat_pack_how)how;
    pack->seed = seed;
    pack->multiple = multiple;
    pack->has_bos = tokens[0] != Py_None;
    pack->has_eos = tokens[1] != Py_None;
    for (int i = 0; i < 3; i++)
        if (tokens[i] != Py_None)
            *to[i] = (int64_t)PyLong_AsUnsignedLongLongMask(tokens[i]);
    return !PyErr_Occurred();
}

/* (field, elements, rows, widths as uint64) as the library takes it; the memory stays that of the tuple. */
static bool parse_buckets(PyObject *tuple, struct leat_bucket_options *buckets, Py_buffer *widths)
{
    unsigned long long elements, rows;
    if (!PyArg_ParseTuple(tuple, "sKKy*:buckets", &buckets->field, &elements, &rows, widths))
        return false;
    buckets->elements = elements;
    buckets->rows = rows;
    buckets->widths = widths->buf;
    buckets->n_widths = (size_t)widths->len / sizeof(uint64_t);
    return true;
}

/* ---- mixtures ---------------------------------------------------------------------------------------------------- */

/* A mixture as the library takes it, with the memory that it refers to. */
struct mix {
    struct leat_mix_options options;
    struct leat_mix_source *sources;
    struct leat_pack_options *packs;
    struct leat_mix_point *points;
    double *shares; /* of all points */
};

static void mix_free(struct mix *m)
{
    PyMem_Free(m->sources);
    PyMem_Free(m->packs);
    PyMem_Free(m->points);
    PyMem_Free(m->shares);
}

/* A borrowed entry of a dict, or NULL and a KeyError. */
static PyObject *entry(PyObject *dict, const char *name)
{
    PyObject *value = PyDict_Check(dict) ? PyDict_GetItemString(dict, name) : NULL;
    if (!value && !PyErr_Occurred())
        PyErr_Format(PyExc_KeyError, "a mixture lacks %s", name);
    return value;
}

static bool number_of(PyObject *dict, const char *name, unsigned long long *out)
{
    PyObject *value = entry(dict, name);
    *out = value ? PyLong_AsUnsignedLongLong(value) : 0;
    return value && !PyErr_Occurred();
}

static bool shares_of(PyObject *list, Py_ssize_t n, double *out)
{
    if (!PyList_Check(list) || PyList_Size(list) != n) {
        PyErr_Format(PyExc_ValueError, "shares are a list of %zd numbers, one per source", n);
        return false;
    }
    for (Py_ssize_t k = 0; k < n; k++)
        out[k] = PyFloat_AsDouble(PyList_GetItem(list, k));
    return !PyErr_Occurred();
}

static bool parse_source(PyObject *dict, struct leat_mix_source *source, struct leat_pack_options *pack)
{
    PyObject *dataset = entry(dict, "dataset"), *packed = dataset ? entry(dict, "pack") : NULL,
             *share = packed ? entry(dict, "share") : NULL;
    unsigned long long exhausted, limit;
    if (!share || !number_of(dict, "exhausted", &exhausted) || !number_of(dict, "limit", &limit))
        return false;
    if (!PyObject_TypeCheck(dataset, py_dataset_type)) {
        PyErr_SetString(PyExc_TypeError, "the source of a mixture is a data set");
        return false;
    }
    if (packed != Py_None && !parse_pack(packed, pack))
        return false;
    *source = (struct leat_mix_source){.dataset = py_dataset_handle(dataset),
                                       .pack = packed == Py_None ? NULL : pack,
                                       .share = PyFloat_AsDouble(share),
                                       .exhausted = (enum leat_exhausted)exhausted,
                                       .limit = limit};
    return !PyErr_Occurred();
}

static bool parse_schedule(PyObject *list, struct mix *m)
{
    const Py_ssize_t n = PyList_Check(list) ? PyList_Size(list) : -1, k = (Py_ssize_t)m->options.n_sources;
    if (n < 0) {
        PyErr_SetString(PyExc_TypeError, "the schedule of a mixture is a list of [row, shares]");
        return false;
    }
    m->points = PyMem_Calloc((size_t)n + 1, sizeof *m->points);
    m->shares = PyMem_Calloc((size_t)(n * k) + 1, sizeof *m->shares);
    if (!m->points || !m->shares)
        return PyErr_NoMemory(), false;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *point = PyList_GetItem(list, i), *row = PySequence_GetItem(point, 0),
                 *shares = row ? PySequence_GetItem(point, 1) : NULL;
        m->points[i] = (struct leat_mix_point){row ? PyLong_AsUnsignedLongLong(row) : 0, m->shares + i * k};
        bool ok = shares && !PyErr_Occurred() && shares_of(shares, k, m->shares + i * k);
        Py_XDECREF(row);
        Py_XDECREF(shares);
        if (!ok)
            return false;
    }
    m->options.schedule = m->points;
    m->options.n_points = (size_t)n;
    return true;
}

/* Says whether a choice of two words is the second one. */
static bool is_second(PyObject *dict, const char *name, const char *first, const char *second, bool *out)
{
    PyObject *value = entry(dict, name);
    *out = value && PyUnicode_Check(value) && !PyUnicode_CompareWithASCIIString(value, second);
    if (value && !*out && (!PyUnicode_Check(value) || PyUnicode_CompareWithASCIIString(value, first)))
        PyErr_Format(PyExc_ValueError, "%s of a mixture is \"%s\" or \"%s\", not %R", name, first, second, value);
    return !PyErr_Occurred();
}

/* {"sources": [{"dataset", "pack", "share", "exhausted", "limit"}], "unit", "tokens_field", "epoch_rows", "schedule",
 * "interpolate"}; the dict keeps what the result refers to. */
static bool parse_mix(PyObject *dict, struct mix *m)
{
    m->options = (struct leat_mix_options)LEAT_MIX_OPTIONS_INIT;
    PyObject *sources = entry(dict, "sources"), *field = sources ? entry(dict, "tokens_field") : NULL;
    unsigned long long rows;
    bool tokens;
    if (!field || !number_of(dict, "epoch_rows", &rows) || !is_second(dict, "unit", "samples", "tokens", &tokens) ||
        !is_second(dict, "interpolate", "step", "linear", &m->options.linear))
        return false;
    const Py_ssize_t n = PyList_Check(sources) ? PyList_Size(sources) : -1;
    if (n < 1) {
        PyErr_SetString(PyExc_ValueError, "a mixture has a list of at least one source");
        return false;
    }
    m->options.unit = tokens ? LEAT_MIX_TOKENS : LEAT_MIX_SAMPLES;
    m->options.tokens_field = PyUnicode_AsUTF8AndSize(field, NULL);
    m->options.epoch_rows = rows;
    m->options.n_sources = (uint32_t)n;
    m->options.sources = m->sources = PyMem_Calloc((size_t)n, sizeof *m->sources);
    m->packs = PyMem_Calloc((size_t)n, sizeof *m->packs);
    if (!m->sources || !m->packs)
        return PyErr_NoMemory(), false;
    for (Py_ssize_t k = 0; k < n; k++)
        if (!parse_source(PyList_GetItem(sources, k), &m->sources[k], &m->packs[k]))
            return false;
    PyObject *schedule = entry(dict, "schedule");
    return schedule && m->options.tokens_field && parse_schedule(schedule, m);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static PyObject *loader_open(PyTypeObject *type, PyObject *args, PyObject *named)
{
    struct leat_loader_options o = LEAT_LOADER_OPTIONS_INIT;
    struct loader *l = NULL;
    struct leat_error error;
    PyObject *dataset = Py_None, *report = NULL, *log_dir = NULL, *functions, *packed = Py_None, *executor = Py_None,
             *mixed = Py_None, *grouped = Py_None;
    struct leat_bucket_options buckets = {0};
    struct mix mix = {0};
    struct leat_pack_options pack = {0};
    struct leat_native *table = NULL;
    Py_buffer weights = {0}, positions = {0}, widths = {0};
    int order, replacement, tail, on_error, in_order = 1, decided = 0, rc;
    unsigned long long batch, global, block, samples, seed, budget, held;
    long long epochs;
    if (!PyArg_ParseTupleAndKeywords(args, named, "OKKiKz*Kpz*KLiIIIiO&IKKdziO&O!|pOOOOp:open",
                                     (char **)(uintptr_t)keywords, &dataset, &batch, &global, &order, &block, &weights,
                                     &samples, &replacement, &positions, &seed, &epochs, &tail, &o.rank, &o.world_size,
                                     &o.local_ranks, &on_error, py_path_or_none, &report, &o.num_threads, &budget,
                                     &held, &o.weight, &o.program, &o.region, py_path_or_none, &log_dir, &PyList_Type,
                                     &functions, &in_order, &packed, &executor, &mixed, &grouped, &decided))
        return NULL;
    if (mixed == Py_None && !PyObject_TypeCheck(dataset, py_dataset_type)) {
        PyErr_SetString(PyExc_TypeError, "a loader reads a data set or a mixture");
        goto out;
    }
    if (mixed != Py_None && !parse_mix(mixed, &mix))
        goto out;
    if (packed != Py_None && !parse_pack(packed, &pack))
        goto out;
    if (grouped != Py_None && !parse_buckets(grouped, &buckets, &widths))
        goto out;
    o.pack = packed == Py_None ? NULL : &pack;
    o.buckets = grouped == Py_None ? NULL : &buckets;
    o.batch_size = batch;
    o.global_batch_size = global;
    o.order = (enum leat_order)order;
    o.block_rows = block;
    o.weights = weights.buf;
    o.n_weights = (uint64_t)weights.len / sizeof(double);
    o.num_samples = samples;
    o.replacement = replacement;
    o.positions = positions.buf;
    o.n_positions = (uint64_t)positions.len / sizeof(int64_t);
    o.seed = seed;
    o.epochs = epochs;
    o.tail = (enum leat_tail)tail;
    o.on_error = (enum leat_on_error)on_error;
    o.in_order = in_order;
    o.decided = decided;
    o.error_report = report ? PyBytes_AsString(report) : NULL;
    o.budget_bytes = budget;
    o.max_held_bytes = held;
    o.log_dir = log_dir ? PyBytes_AsString(log_dir) : NULL;
    o.functions = table = py_native_table(functions);
    o.n_functions = (size_t)PyList_Size(functions);
    o.executor = executor == Py_None ? NULL : py_executor_handle(executor);
    l = table ? py_object_new(type) : NULL;
    if (!l)
        goto out;
    py_guard_init(&l->reader.guard);
    l->functions = Py_NewRef(functions);
    l->executor = executor == Py_None ? NULL : Py_NewRef(executor);
    struct leat_dataset *data = mixed == Py_None ? py_dataset_handle(dataset) : NULL;
    PY_WITHOUT_GIL(rc = data ? leat_loader_open(data, &o, &l->handle, &error)
                             : leat_loader_open_mix(&mix.options, &o, &l->handle, &error));
    if (rc)
        l->handle = NULL;
    else
        l->reader.consumer = leat_loader_consumer(l->handle);
    if (rc || PyErr_Occurred()) {
        if (rc)
            py_raise(&error);
        PyObject *type_, *value, *trace;
        PyErr_Fetch(&type_, &value, &trace);
        Py_CLEAR(l);
        PyErr_Restore(type_, value, trace);
    }
out:
    if (weights.obj)
        PyBuffer_Release(&weights);
    if (positions.obj)
        PyBuffer_Release(&positions);
    if (widths.obj)
        PyBuffer_Release(&widths);
    PyMem_Free(table);
    mix_free(&mix);
    Py_XDECREF(report);
    Py_XDECREF(log_dir);
    return (PyObject *)l;
}

static void loader_dealloc(PyObject *self)
{
    struct loader *l = (struct loader *)self;
    struct leat_loader *handle = l->handle;
    l->handle = NULL;
    l->reader.consumer = NULL;
    if (handle) {
        PY_WITHOUT_GIL(leat_loader_close(handle)); /* does nothing in a forked child */
    }
    Py_CLEAR(l->functions);
    Py_CLEAR(l->executor);
    py_object_free(self);
}

struct leat_loader *py_loader_handle(PyObject *object)
{
    struct leat_loader *handle = ((struct loader *)object)->handle;
    return handle ? handle
                  : (struct leat_loader *)py_raise_text(LEAT_E_CLOSED, "the Loader is closed: open another one");
}

/* region() -> (descriptor, bytes) */
static PyObject *loader_region(PyObject *self, PyObject *none)
{
    struct loader *l = (struct loader *)self;
    uint64_t bytes;
    int fd;
    bool ok;
    PY_READER_ASK(ok, &l->reader, leat_loader_region(l->handle, &fd, &bytes, &error));
    return ok ? Py_BuildValue("iK", fd, (unsigned long long)bytes) : NULL;
}

static PyObject *loader_close(PyObject *self, PyObject *none)
{
    struct loader *l = (struct loader *)self;
    if (!py_guard_here(&l->reader.guard))
        Py_RETURN_NONE;
    if (py_guard_mine(&l->reader.guard))
        return py_raise_within();
    atomic_store(&l->reader.closing, true);
    if (l->handle)
        leat_loader_interrupt(l->handle);
    py_guard_lock(&l->reader.guard);
    struct leat_loader *handle = l->handle;
    l->handle = NULL;
    l->reader.consumer = NULL;
    PY_WITHOUT_GIL(leat_loader_close(handle));
    py_guard_unlock(&l->reader.guard);
    Py_RETURN_NONE;
}

static PyObject *loader_set_positions(PyObject *self, PyObject *positions)
{
    struct loader *l = (struct loader *)self;
    Py_buffer view;
    bool ok;
    if (PyObject_GetBuffer(positions, &view, PyBUF_SIMPLE))
        return NULL;
    PY_READER_CALL(ok, &l->reader,
                   leat_loader_set_positions(l->handle, view.buf, (uint64_t)view.len / sizeof(int64_t), &error));
    PyBuffer_Release(&view);
    return ok ? Py_NewRef(Py_None) : NULL;
}

/* decide_rows(epoch or -1: from the next one, step, 0 as opened, 1 listed or 2 selected, int64 positions or None) */
static PyObject *loader_decide_rows(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    Py_buffer view = {0};
    long long epoch, step;
    int rows;
    bool ok;
    if (!PyArg_ParseTuple(args, "LLiz*:decide_rows", &epoch, &step, &rows, &view))
        return NULL;
    const struct leat_step from = {(uint64_t)epoch, (uint64_t)step};
    PY_READER_CALL(ok, &l->reader,
                   leat_loader_decide_rows(l->handle, epoch < 0 ? NULL : &from, (enum leat_rows)rows, view.buf,
                                           (uint64_t)view.len / sizeof(int64_t), &error));
    if (view.obj)
        PyBuffer_Release(&view);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *loader_know_list(PyObject *self, PyObject *positions)
{
    struct loader *l = (struct loader *)self;
    Py_buffer view;
    bool ok;
    if (PyObject_GetBuffer(positions, &view, PyBUF_SIMPLE))
        return NULL;
    PY_READER_CALL(ok, &l->reader,
                   leat_loader_know_list(l->handle, view.buf, (uint64_t)view.len / sizeof(int64_t), &error));
    PyBuffer_Release(&view);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *loader_next_start(PyObject *self, PyObject *none)
{
    struct loader *l = (struct loader *)self;
    uint64_t epoch = 0;
    bool within = false, ok;
    PY_READER_ASK(ok, &l->reader, leat_loader_next_start(l->handle, &epoch, &within, &error));
    return ok ? Py_BuildValue("KO", (unsigned long long)epoch, within ? Py_True : Py_False) : NULL;
}

/* set_global_batch_size(rows of all ranks, epoch and step, or -1 and -1: from the first batch not handed out) */
static PyObject *loader_set_global_batch_size(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long rows;
    long long epoch, step;
    bool ok;
    if (!PyArg_ParseTuple(args, "KLL:set_global_batch_size", &rows, &epoch, &step))
        return NULL;
    const struct leat_step at = {(uint64_t)epoch, (uint64_t)step};
    PY_READER_CALL(ok, &l->reader, leat_loader_set_global_batch_size(l->handle, rows, epoch < 0 ? NULL : &at, &error));
    return ok ? Py_NewRef(Py_None) : NULL;
}

/* set_shares(epoch and step, or -1 and -1: from the first batch not handed out, shares) */
static PyObject *loader_set_shares(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    PyObject *list;
    long long epoch, step;
    bool ok;
    if (!PyArg_ParseTuple(args, "LLO!:set_shares", &epoch, &step, &PyList_Type, &list))
        return NULL;
    const Py_ssize_t n = PyList_Size(list);
    double *shares = PyMem_Calloc((size_t)n + 1, sizeof *shares);
    if (!shares)
        return PyErr_NoMemory();
    if (!shares_of(list, n, shares)) {
        PyMem_Free(shares);
        return NULL;
    }
    const struct leat_step at = {(uint64_t)epoch, (uint64_t)step};
    PY_READER_CALL(ok, &l->reader,
                   leat_loader_set_shares(l->handle, epoch < 0 ? NULL : &at, shares, (uint32_t)n, &error));
    PyMem_Free(shares);
    return ok ? Py_NewRef(Py_None) : NULL;
}

/* mix_counts(epoch, rows, out: writable buffer of as many uint64 as there are sources) */
static PyObject *loader_mix_counts(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long epoch, rows;
    Py_buffer out;
    bool ok;
    if (!PyArg_ParseTuple(args, "KKw*:mix_counts", &epoch, &rows, &out))
        return NULL;
    PY_READER_CALL(ok, &l->reader,
                   leat_loader_mix_counts(l->handle, epoch, rows, out.buf, (uint32_t)(out.len / 8), &error));
    PyBuffer_Release(&out);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *loader_stats(PyObject *self, PyObject *none)
{
    struct loader *l = (struct loader *)self;
    char *json = NULL;
    bool ok;
    PY_READER_ASK(ok, &l->reader, leat_loader_stats(l->handle, &json, &error));
    return ok ? py_text_take(json) : NULL;
}

static PyObject *loader_log(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long first;
    char *json = NULL;
    bool ok;
    if (!PyArg_ParseTuple(args, "K:log", &first))
        return NULL;
    PY_READER_ASK(ok, &l->reader, leat_loader_log(l->handle, first, &json, &error));
    return ok ? py_text_take(json) : NULL;
}

static PyObject *loader_trace(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long max_events;
    bool ok;
    if (!PyArg_ParseTuple(args, "K:trace", &max_events))
        return NULL;
    PY_READER_ASK(ok, &l->reader, leat_loader_trace(l->handle, max_events, &error));
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *loader_trace_json(PyObject *self, PyObject *none)
{
    struct loader *l = (struct loader *)self;
    char *json = NULL;
    bool ok;
    PY_READER_ASK(ok, &l->reader, leat_loader_trace_json(l->handle, &json, &error));
    return ok ? py_text_take(json) : NULL;
}

static PyObject *loader_plan(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long epoch, step;
    int64_t *ids = NULL;
    uint64_t n = 0;
    bool ok;
    if (!PyArg_ParseTuple(args, "KK:plan", &epoch, &step))
        return NULL;
    PY_READER_CALL(ok, &l->reader, leat_loader_plan(l->handle, epoch, step, &ids, &n, &error));
    PyObject *memory = ok ? py_memory_copy(ids, LEAT_I64, n) : NULL;
    leat_free(ids);
    return memory;
}

/* plan_domains(epoch, step) -> (sources, positions in them) */
static PyObject *loader_plan_domains(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long epoch, step;
    int32_t *domains = NULL;
    int64_t *positions = NULL;
    uint64_t n = 0;
    bool ok;
    if (!PyArg_ParseTuple(args, "KK:plan_domains", &epoch, &step))
        return NULL;
    PY_READER_CALL(ok, &l->reader, leat_loader_plan_domains(l->handle, epoch, step, &domains, &positions, &n, &error));
    PyObject *first = ok ? py_memory_copy(domains, LEAT_I32, n) : NULL,
             *second = first ? py_memory_copy(positions, LEAT_I64, n) : NULL,
             *both = second ? PyTuple_Pack(2, first, second) : NULL;
    leat_free(domains);
    leat_free(positions);
    Py_XDECREF(first);
    Py_XDECREF(second);
    return both;
}

static PyObject *loader_batch_at(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    struct leat_batch *batch = NULL;
    unsigned long long epoch, step, first = 0, n = 0;
    bool ok;
    if (!PyArg_ParseTuple(args, "KK|KK:batch_at", &epoch, &step, &first, &n))
        return NULL;
    PY_READER_CALL(ok, &l->reader,
                   PyTuple_Size(args) > 2 ? leat_loader_rows_at(l->handle, epoch, step, first, n, &batch, &error)
                                          : leat_loader_batch_at(l->handle, epoch, step, &batch, &error));
    if (!ok)
        leat_batch_free(batch);
    return ok ? py_batch_new(batch, false) : NULL;
}

/* consumer(batch_size, beginning) -> Consumer */
static PyObject *loader_consumer(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long batch_size;
    int beginning;
    if (!PyArg_ParseTuple(args, "Kp:consumer", &batch_size, &beginning))
        return NULL;
    if (!py_reader_enter(&l->reader))
        return NULL;
    PyObject *made = py_consumer_open(l->handle, batch_size, beginning);
    py_guard_unlock(&l->reader.guard);
    return made;
}

static PyMethodDef loader_methods[] = {
    {"open", (PyCFunction)(void (*)(void))loader_open, METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "open(dataset, ...): see leat.Loader"},
    PY_READER_METHODS,
    {"region", loader_region, METH_NOARGS, "region(): descriptor and bytes of memory that is shared"},
    {"close", loader_close, METH_NOARGS, "close()"},
    {"set_positions", loader_set_positions, METH_O, "set_positions(int64 positions)"},
    {"decide_rows", loader_decide_rows, METH_VARARGS,
     "decide_rows(epoch, step, rows, positions): -1: from the next epoch; rows: 0 as opened, 1 listed, 2 selected"},
    {"know_list", loader_know_list, METH_O, "know_list(int64 positions): for the next load_state"},
    {"next_start", loader_next_start, METH_NOARGS, "next_start(): the epoch that begins next, and whether within it"},
    {"set_global_batch_size", loader_set_global_batch_size, METH_VARARGS,
     "set_global_batch_size(rows, epoch, step): -1, -1: from the next batch"},
    {"mix_counts", loader_mix_counts, METH_VARARGS, "mix_counts(epoch, rows, out): rows of each source among them"},
    {"set_shares", loader_set_shares, METH_VARARGS, "set_shares(epoch, step, shares): -1, -1: from the next batch"},
    {"plan", loader_plan, METH_VARARGS, "plan(epoch, step): Memory of int64 ids"},
    {"plan_domains", loader_plan_domains, METH_VARARGS, "plan_domains(epoch, step): sources and positions of rows"},
    {"batch_at", loader_batch_at, METH_VARARGS,
     "batch_at(epoch, step[, first, n]): that Batch, or n rows of it, computed again"},
    {"consumer", loader_consumer, METH_VARARGS, "consumer(batch_size, beginning): a Consumer of the same rows"},
    {"stats", loader_stats, METH_NOARGS, "stats(): JSON text"},
    {"log", loader_log, METH_VARARGS, "log(first): JSON text of entries"},
    {"trace", loader_trace, METH_VARARGS, "trace(max_events): records what threads do; 0 ends it"},
    {"trace_json", loader_trace_json, METH_NOARGS, "trace_json(): JSON text"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot loader_slots[] = {
    {Py_tp_doc, (void *)"A handle of a loader."},
    {Py_tp_dealloc, (void *)loader_dealloc},
    {Py_tp_methods, loader_methods},
    {0, NULL},
};

PyType_Spec py_loader_spec = PY_TYPE(Loader, struct loader, loader_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);
