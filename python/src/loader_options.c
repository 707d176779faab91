/*
 * The arguments of Loader.open: values by name. The table loader_options.def says how each is read.
 */
#include "loader_options.h"

#include "leat/device.h"

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

/* (field, length, bos or None, eos or None, fill, how, seed, multiple, chain or None) as the library takes it; the
 * field's name stays that of the tuple. */
static bool parse_pack(PyObject *tuple, struct leat_pack_options *pack)
{
    PyObject *tokens[3];
    int64_t *to[3] = {&pack->bos, &pack->eos, &pack->fill};
    unsigned long long length, seed = 0, multiple = 0;
    int how = LEAT_PACK_CUT;
    if (!PyArg_ParseTuple(tuple, "sKOOO|iKKz:pack", &pack->field, &length, &tokens[0], &tokens[1], &tokens[2], &how,
                          &seed, &multiple, &pack->chain))
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

static bool items_of(PyObject *array, size_t item, const void **items, uint64_t *n)
{
    Py_buffer found;
    if (PyObject_GetBuffer(array, &found, PyBUF_SIMPLE))
        return false;
    *items = found.buf;
    *n = (uint64_t)found.len / item;
    PyBuffer_Release(&found);
    return true;
}

/* (begins and members as uint64, weights as float64 or None), whose memory stays that of the tuple. */
static bool parse_one_of(PyObject *tuple, struct leat_one_of_options *one_of)
{
    PyObject *arrays[3];
    const void *items[3] = {NULL, NULL, NULL};
    uint64_t n[3] = {0, 0, 0};
    if (!PyArg_ParseTuple(tuple, "OOO:one_of", &arrays[0], &arrays[1], &arrays[2]))
        return false;
    for (int i = 0; i < 3; i++)
        if (arrays[i] != Py_None && !items_of(arrays[i], 8, &items[i], &n[i]))
            return false;
    *one_of = (struct leat_one_of_options){
        .begins = items[0], .n_groups = n[0] ? n[0] - 1 : 0, .members = items[1], .weights = items[2]};
    if (n[0] && one_of->begins[n[0] - 1] == n[1] && (!items[2] || n[2] == n[1]))
        return true;
    PyErr_SetString(PyExc_ValueError, "groups end with the members, and weights are as many");
    return false;
}

/* ---- mixtures ---------------------------------------------------------------------------------------------------- */

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

bool py_shares_of(PyObject *list, Py_ssize_t n, double *out)
{
    if (!PyList_Check(list) || PyList_Size(list) != n) {
        PyErr_Format(PyExc_ValueError, "shares are a list of %zd numbers, one per source", n);
        return false;
    }
    for (Py_ssize_t k = 0; k < n; k++)
        out[k] = PyFloat_AsDouble(PyList_GetItem(list, k));
    return !PyErr_Occurred();
}

static bool parse_source(PyObject *dict, struct leat_mix_source *source, struct leat_pack_options *pack,
                         struct leat_one_of_options *one_of)
{
    PyObject *dataset = entry(dict, "dataset"), *packed = dataset ? entry(dict, "pack") : NULL,
             *share = packed ? entry(dict, "share") : NULL,
             *groups = PyDict_Check(dict) ? PyDict_GetItemString(dict, "one_of") : NULL;
    unsigned long long exhausted, limit;
    if (!share || !number_of(dict, "exhausted", &exhausted) || !number_of(dict, "limit", &limit))
        return false;
    if (!PyObject_TypeCheck(dataset, py_dataset_type)) {
        PyErr_SetString(PyExc_TypeError, "the source of a mixture is a data set");
        return false;
    }
    if ((packed != Py_None && !parse_pack(packed, pack)) ||
        (groups && groups != Py_None && !parse_one_of(groups, one_of)))
        return false;
    *source = (struct leat_mix_source){.dataset = py_dataset_handle(dataset),
                                       .pack = packed == Py_None ? NULL : pack,
                                       .share = PyFloat_AsDouble(share),
                                       .exhausted = (enum leat_exhausted)exhausted,
                                       .one_of = !groups || groups == Py_None ? NULL : one_of,
                                       .limit = limit};
    return !PyErr_Occurred();
}

static bool parse_schedule(PyObject *list, struct py_mix *m)
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
        bool ok = shares && !PyErr_Occurred() && py_shares_of(shares, k, m->shares + i * k);
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

/* {"sources": [{"dataset", "pack", "one_of", "share", "exhausted", "limit"}], "unit", "tokens_field", "epoch_rows",
 * "schedule", "interpolate"}; the dict keeps what the result refers to. */
static bool parse_mix(PyObject *dict, struct py_mix *m)
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
    m->one_of = PyMem_Calloc((size_t)n, sizeof *m->one_of);
    if (!m->sources || !m->packs || !m->one_of)
        return PyErr_NoMemory(), false;
    for (Py_ssize_t k = 0; k < n; k++)
        if (!parse_source(PyList_GetItem(sources, k), &m->sources[k], &m->packs[k], &m->one_of[k]))
            return false;
    PyObject *schedule = entry(dict, "schedule");
    return schedule && m->options.tokens_field && parse_schedule(schedule, m);
}

/* ---- one option -------------------------------------------------------------------------------------------------- */

/* Keeps a new reference until the options are released. */
static bool keep(struct py_loader_options *o, PyObject *object)
{
    const bool ok = object && !PyList_Append(o->kept, object);
    Py_XDECREF(object);
    return ok;
}

static const char *path_of(struct py_loader_options *o, PyObject *value)
{
    PyObject *bytes;
    return py_path_or_none(value, &bytes) && bytes && keep(o, bytes) ? PyBytes_AsString(bytes) : NULL;
}

/* The items of a buffer, which stays as it is until the options are released; None: no items, NULL. */
static const void *array_of(struct py_loader_options *o, PyObject *value, size_t item, uint64_t *n)
{
    Py_buffer found;
    PyObject *view = value == Py_None ? NULL : PyMemoryView_FromObject(value);
    if (!view || !keep(o, view) || PyObject_GetBuffer(view, &found, PyBUF_SIMPLE))
        return NULL;
    const void *items = found.buf;
    *n = (uint64_t)found.len / item;
    PyBuffer_Release(&found); /* the view holds it */
    return items;
}

static bool read_dataset(struct py_loader_options *o, PyObject *value)
{
    if (value != Py_None && !PyObject_TypeCheck(value, py_dataset_type)) {
        PyErr_SetString(PyExc_TypeError, "a loader reads a data set or a mixture");
        return false;
    }
    o->dataset = value == Py_None ? NULL : py_dataset_handle(value);
    return true;
}

static bool read_mix(struct py_loader_options *o, PyObject *value)
{
    return value == Py_None || parse_mix(value, &o->mix);
}

static bool read_pack(struct py_loader_options *o, PyObject *value)
{
    o->options.pack = value == Py_None ? NULL : &o->pack;
    return value == Py_None || parse_pack(value, &o->pack);
}

static bool read_one_of(struct py_loader_options *o, PyObject *value)
{
    o->options.one_of = value == Py_None ? NULL : &o->one_of;
    return value == Py_None || parse_one_of(value, &o->one_of);
}

/* (field or None, elements, rows, widths, costs or None, alone, by_length, firsts or None, shared or None), arrays of
 * uint64; the name stays that of the tuple. */
static bool read_buckets(struct py_loader_options *o, PyObject *value)
{
    struct leat_bucket_options *b = &o->buckets;
    unsigned long long elements, rows;
    PyObject *widths, *costs, *firsts, *shared;
    uint64_t n = 0;
    int alone, by_length;
    if (value == Py_None)
        return true;
    if (!PyArg_ParseTuple(value, "zKKOOppOO:buckets", &b->field, &elements, &rows, &widths, &costs, &alone, &by_length,
                          &firsts, &shared))
        return false;
    b->elements = elements;
    b->rows = rows;
    b->widths = array_of(o, widths, sizeof *b->widths, &n);
    b->n_widths = (size_t)n;
    b->costs = PyErr_Occurred() ? NULL : array_of(o, costs, sizeof *b->costs, &b->n_costs);
    b->firsts = PyErr_Occurred() ? NULL : array_of(o, firsts, sizeof *b->firsts, &n);
    b->shared = PyErr_Occurred() ? NULL : array_of(o, shared, sizeof *b->shared, &b->n_shared);
    if (!PyErr_Occurred() && b->n_shared && (!b->firsts || n != b->n_shared))
        PyErr_SetString(PyExc_ValueError, "buckets: a first sample for each cost that is shared");
    b->oversize_alone = alone;
    b->by_length = by_length;
    o->options.buckets = b;
    return !PyErr_Occurred();
}

static bool read_functions(struct py_loader_options *o, PyObject *value)
{
    if (!PyList_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "functions of a loader are a list");
        return false;
    }
    o->functions = value;
    o->options.functions = o->table = py_native_table(value);
    o->options.n_functions = (size_t)PyList_Size(value);
    return o->table;
}

static bool read_executor(struct py_loader_options *o, PyObject *value)
{
    if (value != Py_None) {
        o->executor = value;
        o->options.executor = py_executor_handle(value);
    }
    return true;
}

/* The number of a card. */
static bool read_pinning(struct py_loader_options *o, PyObject *value)
{
    struct leat_error error;
    const long number = value == Py_None ? -1 : PyLong_AsLong(value);
    if (number == -1 || !leat_device_pinning((int)number, &o->options.pinning, &error))
        return !PyErr_Occurred();
    return py_raise(&error);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* How a value of each kind is read into the member of that name; an `object` has a reader of its own. */
#define READ(name, expression) ((o->options.name = (expression)), !PyErr_Occurred())
#define READ_u64(name) READ(name, PyLong_AsUnsignedLongLongMask(value))
#define READ_u32(name) READ(name, (uint32_t)PyLong_AsUnsignedLongLongMask(value)) /* enumerations, too */
#define READ_i64(name) READ(name, PyLong_AsLongLong(value))
#define READ_f64(name) READ(name, PyFloat_AsDouble(value))
#define READ_flag(name) READ(name, PyObject_IsTrue(value) > 0)
#define READ_text(name) PyArg_Parse(value, "z", &o->options.name)
#define READ_path(name) READ(name, path_of(o, value))
#define READ_array(name) READ(name, array_of(o, value, sizeof *o->options.name, &o->options.n_##name))
#define READ_object(name) read_##name(o, value)

#define LEAT_ARGUMENT(...)
#define LEAT_OPTION(name, kind, ...) LEAT_MADE(name, kind)
#define LEAT_MADE(name, kind)                                                                                          \
    static bool take_##name(struct py_loader_options *o, PyObject *value)                                              \
    {                                                                                                                  \
        return READ_##kind(name);                                                                                      \
    }
#include "loader_options.def"
#undef LEAT_MADE

static const struct option {
    const char *name;
    bool (*take)(struct py_loader_options *o, PyObject *value);
} options[] = {
#define LEAT_MADE(name, kind) {#name, take_##name},
#include "loader_options.def"
};

static const struct option *option_of(PyObject *name)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (!PyUnicode_CompareWithASCIIString(name, options[i].name))
            return &options[i];
    PyErr_Format(PyExc_TypeError, "Loader.open has no option %R", name);
    return NULL;
}

bool py_loader_options_read(struct py_loader_options *o, PyObject *named)
{
    PyObject *name, *value;
    *o = (struct py_loader_options){.options = LEAT_LOADER_OPTIONS_INIT, .kept = PyList_New(0)};
    if (!o->kept)
        return false;
    for (Py_ssize_t at = 0; named && PyDict_Next(named, &at, &name, &value);) {
        const struct option *option = option_of(name);
        if (!option || !option->take(o, value))
            return false;
    }
    if (!o->dataset && !o->mix.sources)
        PyErr_SetString(PyExc_TypeError, "a loader reads a data set or a mixture");
    return !PyErr_Occurred();
}

void py_loader_options_release(struct py_loader_options *o)
{
    PyMem_Free(o->mix.sources);
    PyMem_Free(o->mix.packs);
    PyMem_Free(o->mix.one_of);
    PyMem_Free(o->mix.points);
    PyMem_Free(o->mix.shares);
    PyMem_Free(o->table);
    Py_XDECREF(o->kept);
}
