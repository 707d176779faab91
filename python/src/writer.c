/*
 * Writers. leat/data/writer.py turns values into buffers; here they are handed to the library, whose threads take it
 * from there: a call may wait for room in their queue, so it runs without the GIL.
 */
#include "leat/shards.h"
#include "leat_py.h"

#include <stdlib.h>
#include <string.h>

struct writer {
    PyObject_HEAD struct py_guard guard;
    struct leat_writer *handle; /* NULL: closed */
    size_t n_fields;
};

/* A field from (name, kind, dtype, layout, shape, role, normalized, pairs, item, columns, flags); strings and pairs,
 * which are bytes, stay those of the tuple. */
int py_field(PyObject *tuple, struct leat_field *f)
{
    const char *dtype, *item;
    long long columns;
    int kind, layout, role, normalized, flags;
    PyObject *shape, *pairs;
    if (!PyArg_ParseTuple(tuple, "sisiOipSsLi", &f->name, &kind, &dtype, &layout, &shape, &role, &normalized, &pairs,
                          &item, &columns, &flags))
        return -1;
    Py_ssize_t ndim = PyTuple_Size(shape);
    if (ndim < 0)
        return -1;
    if (ndim > LEAT_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "field %s has %zd dimensions: at most %d are possible", f->name, ndim,
                     LEAT_MAX_DIMS);
        return -1;
    }
    f->kind = (enum leat_kind)kind;
    f->flags = (unsigned)flags;
    f->dtype = leat_dtype_from_name(dtype);
    f->layout = (enum leat_layout)layout;
    f->ndim = (unsigned)ndim;
    f->role = (enum leat_role)role;
    f->normalized = normalized != 0;
    f->item = leat_dtype_from_name(item);
    f->columns = columns;
    f->n_pairs = (size_t)PyBytes_Size(pairs) / (2 * sizeof *f->pairs);
    f->pairs = f->n_pairs ? (const uint16_t *)(const void *)PyBytes_AsString(pairs) : NULL;
    for (Py_ssize_t i = 0; i < ndim; i++) {
        f->shape[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        if (f->shape[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

Py_ssize_t py_schema_fields(PyObject *list, struct leat_field **out)
{
    Py_ssize_t n = PyList_Size(list);
    struct leat_field *fields = n < 0 ? NULL : calloc((size_t)n + 1, sizeof *fields);
    *out = NULL;
    if (n >= 0 && !fields)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; fields && i < n; i++)
        if (py_field(PyList_GetItem(list, i), &fields[i])) {
            free(fields);
            fields = NULL;
        }
    *out = fields;
    return fields ? n : -1;
}

const char **py_strings_of(PyObject *list, size_t *n)
{
    Py_ssize_t count = PyList_Size(list);
    if (count < 0)
        return NULL;
    const char **out = calloc((size_t)count + 1, sizeof(char *));
    if (!out) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyList_GetItem(list, i);
        out[i] = PyBytes_Check(item) ? PyBytes_AsString(item) : PyUnicode_AsUTF8AndSize(item, NULL);
        if (!out[i]) {
            free(out);
            return NULL;
        }
    }
    *n = (size_t)count;
    return out;
}

/* open(path, fields, check, overwrite, resume, shard_bytes, num_threads, metadata, classes, photos, lenient, on_bad,
 * max_side, quality, source_id) */
static PyObject *writer_open(PyTypeObject *type, PyObject *args)
{
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_field *fields = NULL;
    const char **classes = NULL;
    struct writer *w = NULL;
    struct leat_error error;
    PyObject *path = NULL, *field_list, *class_list;
    int check, overwrite, resume, photos, lenient, on_bad, rc;
    unsigned long long shard_bytes;
    if (!PyArg_ParseTuple(args, "O&O!pppKIzO!ipiIIz:open", py_path_or_none, &path, &PyList_Type, &field_list, &check,
                          &overwrite, &resume, &shard_bytes, &options.num_threads, &options.metadata, &PyList_Type,
                          &class_list, &photos, &lenient, &on_bad, &options.max_side, &options.quality,
                          &options.source_id))
        return NULL;
    options.check = check;
    options.overwrite = overwrite;
    options.resume = resume;
    options.shard_bytes = shard_bytes;
    options.photos = (enum leat_photos)photos;
    options.lenient = lenient;
    options.keep_unfinished = options.source_id != NULL;
    options.on_bad = (enum leat_on_bad)on_bad;
    Py_ssize_t n = py_schema_fields(field_list, &fields);
    classes = n < 0 ? NULL : py_strings_of(class_list, &options.n_classes);
    if (!classes)
        goto out;
    options.classes = options.n_classes ? classes : NULL;
    w = py_object_new(type);
    if (!w)
        goto out;
    py_guard_init(&w->guard);
    w->n_fields = (size_t)n;
    const char *name = path ? PyBytes_AsString(path) : "";
    PY_WITHOUT_GIL(rc = leat_writer_open(name, fields, (size_t)n, &options, &w->handle, &error));
    if (rc) {
        w->handle = NULL;
        Py_CLEAR(w);
        py_raise(&error);
    }
out:
    Py_XDECREF(path);
    free(fields);
    free(classes);
    return (PyObject *)w;
}

/* A writer of the parent has no threads in a forked child: there it is left alone, so that the parent's file stays. */
static void writer_dealloc(PyObject *self)
{
    struct writer *w = (struct writer *)self;
    if (w->handle && py_guard_here(&w->guard)) {
        PY_WITHOUT_GIL(leat_writer_free(w->handle, true));
        py_guard_destroy(&w->guard);
    }
    py_object_free(self);
}

static void *raise_within(void)
{
    PyErr_SetString(PyExc_RuntimeError, "this thread is within a call of this Writer: use it after that");
    return NULL;
}

/* The handle with the guard taken, or NULL with an exception. */
static struct leat_writer *writer_enter(struct writer *w)
{
    if (!py_guard_here(&w->guard)) {
        py_raise_text(LEAT_E_FORKED, "a Writer works only in the process that opened it: open one in this process");
        return NULL;
    }
    if (py_guard_mine(&w->guard))
        return raise_within();
    py_guard_lock(&w->guard);
    if (w->handle)
        return w->handle;
    py_guard_unlock(&w->guard);
    py_raise_text(LEAT_E_CLOSED, "the Writer is closed: open another one");
    return NULL;
}

static PyObject *writer_count(PyObject *self, PyObject *none)
{
    struct leat_writer *handle = writer_enter((struct writer *)self);
    if (!handle)
        return NULL;
    uint64_t n = leat_writer_count(handle);
    py_guard_unlock(&((struct writer *)self)->guard);
    return PyLong_FromUnsignedLongLong(n);
}

enum { FEW_FIELDS = 16 };

/* Gives the library one buffer for each field: of a sample, or (rows) of the columns of so many. Returns its id, or -1
 * with an exception. */
static int64_t give(struct writer *w, PyObject *list, const unsigned long long *rows)
{
    struct leat_value_ref few_values[FEW_FIELDS], *values = few_values;
    const void *few_columns[FEW_FIELDS], **columns = few_columns;
    Py_buffer few_views[FEW_FIELDS], *views = few_views;
    struct leat_error error;
    uint64_t id = 0;
    int rc = -1;
    size_t n = w->n_fields, taken = 0;
    if (n > FEW_FIELDS) {
        values = malloc(n * sizeof *values);
        columns = malloc(n * sizeof *columns);
        views = malloc(n * sizeof *views);
    }
    if (!values || !columns || !views)
        PyErr_NoMemory();
    else if (!PyList_Check(list) || (size_t)PyList_Size(list) != n)
        PyErr_SetString(PyList_Check(list) ? PyExc_ValueError : PyExc_TypeError, "one buffer per field is needed");
    else
        while (taken < n && !PyObject_GetBuffer(PyList_GetItem(list, (Py_ssize_t)taken), &views[taken], PyBUF_SIMPLE)) {
            values[taken] = (struct leat_value_ref){.data = views[taken].buf, .length = (uint64_t)views[taken].len};
            columns[taken] = views[taken].buf;
            taken++;
        }
    struct leat_writer *handle = PyErr_Occurred() ? NULL : writer_enter(w);
    if (handle) {
        PY_WITHOUT_GIL(rc = rows ? leat_writer_add_columns(handle, columns, *rows, &error)
                                 : leat_writer_add(handle, values, &id, &error));
        py_guard_unlock(&w->guard);
        if (rc)
            py_raise(&error);
    }
    while (taken)
        PyBuffer_Release(&views[--taken]);
    if (n > FEW_FIELDS) {
        free(values);
        free(columns);
        free(views);
    }
    return rc ? -1 : (int64_t)id;
}

/* add(list of buffers in the order of the fields) -> id */
static PyObject *writer_add(PyObject *self, PyObject *list)
{
    const int64_t id = give((struct writer *)self, list, NULL);
    return id < 0 ? NULL : PyLong_FromLongLong(id);
}

/* add_columns(list of buffers in the order of the fields, n) */
static PyObject *writer_add_columns(PyObject *self, PyObject *args)
{
    PyObject *list;
    unsigned long long rows;
    if (!PyArg_ParseTuple(args, "OK:add_columns", &list, &rows) || give((struct writer *)self, list, &rows) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* add_samples(Dataset, [field], begin, n): of a data set, whose fields are numbers */
static PyObject *writer_add_samples(PyObject *self, PyObject *args)
{
    struct writer *w = (struct writer *)self;
    PyObject *dataset, *list;
    unsigned long long begin, n;
    struct leat_error error;
    int rc = LEAT_OK;
    if (!PyArg_ParseTuple(args, "O!O!KK:add_samples", py_dataset_type, &dataset, &PyList_Type, &list, &begin, &n))
        return NULL;
    const Py_ssize_t n_fields = PyList_Size(list);
    size_t *fields = PyMem_Malloc(((size_t)n_fields + 1) * sizeof *fields);
    if (!fields)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n_fields; i++)
        fields[i] = PyLong_AsSize_t(PyList_GetItem(list, i));
    struct leat_writer *handle = PyErr_Occurred() ? NULL : writer_enter(w);
    if (handle) {
        struct leat_dataset *from = py_dataset_handle(dataset);
        PY_WITHOUT_GIL(rc = leat_dataset_write(from, fields, (size_t)n_fields, begin, n, handle, &error));
        py_guard_unlock(&w->guard);
    }
    PyMem_Free(fields);
    return handle ? py_none_or_raise(rc, &error) : NULL;
}

/* set_source(Dataset) */
static PyObject *writer_set_source(PyObject *self, PyObject *dataset)
{
    struct writer *w = (struct writer *)self;
    struct leat_error error;
    if (!PyObject_TypeCheck(dataset, py_dataset_type)) {
        PyErr_SetString(PyExc_TypeError, "set_source takes a Dataset");
        return NULL;
    }
    struct leat_writer *handle = writer_enter(w);
    if (!handle)
        return NULL;
    const int rc = leat_writer_set_source(handle, py_dataset_handle(dataset), &error);
    py_guard_unlock(&w->guard);
    return py_none_or_raise(rc, &error);
}

/* finish(metadata=None) */
static PyObject *writer_finish(PyObject *self, PyObject *args)
{
    struct writer *w = (struct writer *)self;
    struct leat_error error;
    const char *metadata = NULL;
    int rc;
    if (!PyArg_ParseTuple(args, "|z:finish", &metadata))
        return NULL;
    struct leat_writer *handle = writer_enter(w);
    if (!handle)
        return NULL;
    PY_WITHOUT_GIL(rc = leat_writer_finish_as(handle, metadata, &error));
    py_guard_unlock(&w->guard);
    return py_none_or_raise(rc, &error);
}

/* free(keep_partial) */
static PyObject *writer_free(PyObject *self, PyObject *keep)
{
    struct writer *w = (struct writer *)self;
    int keep_partial = PyObject_IsTrue(keep);
    if (keep_partial < 0)
        return NULL;
    if (!py_guard_here(&w->guard))
        Py_RETURN_NONE;
    if (py_guard_mine(&w->guard))
        return raise_within();
    py_guard_lock(&w->guard);
    struct leat_writer *handle = w->handle;
    w->handle = NULL;
    PY_WITHOUT_GIL(leat_writer_free(handle, keep_partial));
    py_guard_unlock(&w->guard);
    Py_RETURN_NONE;
}

/* bad() -> [(index, skipped, name, reason)] */
static PyObject *writer_bad(PyObject *self, PyObject *none)
{
    struct writer *w = (struct writer *)self;
    struct leat_writer *handle = writer_enter(w);
    struct leat_bad_sample bad;
    if (!handle)
        return NULL;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && leat_writer_bad(handle, i, &bad); i++) {
        py_list_add(&list, Py_BuildValue("(KNss)", (unsigned long long)bad.index, PyBool_FromLong(bad.skipped),
                                         bad.name, bad.reason));
    }
    py_guard_unlock(&w->guard);
    return list;
}

/* as_came(), warned() -> {reason: photos}, most frequent first */
static PyObject *reasons_of(PyObject *self,
                            bool (*of)(const struct leat_writer *writer, size_t i, struct leat_as_came *out))
{
    struct writer *w = (struct writer *)self;
    struct leat_writer *handle = writer_enter(w);
    struct leat_as_came why;
    if (!handle)
        return NULL;
    PyObject *counts = PyDict_New();
    for (size_t i = 0; counts && of(handle, i, &why); i++) {
        PyObject *n = PyLong_FromUnsignedLongLong(why.photos);
        if (!n || PyDict_SetItemString(counts, why.reason, n))
            Py_CLEAR(counts);
        Py_XDECREF(n);
    }
    py_guard_unlock(&w->guard);
    return counts;
}

static PyObject *writer_as_came(PyObject *self, PyObject *none)
{
    return reasons_of(self, leat_writer_as_came);
}

static PyObject *writer_warned(PyObject *self, PyObject *none)
{
    return reasons_of(self, leat_writer_warned);
}

/* boxes() -> {number of a field: (counts, text or None)} */
static PyObject *writer_boxes(PyObject *self, PyObject *fields)
{
    struct writer *w = (struct writer *)self;
    struct leat_field *schema = NULL;
    const Py_ssize_t n = py_schema_fields(fields, &schema);
    struct leat_writer *handle = n < 0 ? NULL : writer_enter(w);
    PyObject *found = handle ? PyDict_New() : NULL;
    for (Py_ssize_t f = 0; found && f < n; f++) {
        struct leat_box_counts c;
        char text[400];
        if (!leat_writer_boxes(handle, (size_t)f, &c))
            continue;
        const bool suspect = leat_box_counts_suspect(&c, &schema[f], text, sizeof text);
        PyObject *one = Py_BuildValue("({sK sK sK sK sK sK}z)", "count", (unsigned long long)c.count, "cut",
                                      (unsigned long long)c.cut, "outside", (unsigned long long)c.outside, "empty",
                                      (unsigned long long)c.empty, "not_finite", (unsigned long long)c.not_finite,
                                      "tiny", (unsigned long long)c.tiny, suspect ? text : NULL);
        if (!one || PyDict_SetItemString(found, schema[f].name, one))
            Py_CLEAR(found);
        Py_XDECREF(one);
    }
    if (handle)
        py_guard_unlock(&w->guard);
    free(schema);
    return found;
}

/* writer_join(path, files) */
PyObject *py_writer_join(PyObject *module, PyObject *args)
{
    const char *path;
    PyObject *files;
    struct leat_error error;
    int rc = LEAT_OK;
    if (!PyArg_ParseTuple(args, "sO!:writer_join", &path, &PyList_Type, &files))
        return NULL;
    const Py_ssize_t n = PyList_Size(files);
    const char **names = PyMem_Calloc((size_t)n + 1, sizeof *names);
    PyObject *kept = names ? PyList_GetSlice(files, 0, n) : PyErr_NoMemory(); /* names live as long as their texts */
    bool ok = kept != NULL;
    for (Py_ssize_t i = 0; ok && i < n; i++)
        ok = (names[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(kept, i), NULL)) != NULL;
    if (ok)
        PY_WITHOUT_GIL(rc = leat_writer_join(path, names, (size_t)n, &error));
    PyMem_Free(names);
    Py_XDECREF(kept);
    return !ok ? NULL : rc ? py_raise(&error) : Py_NewRef(Py_None);
}

static PyMethodDef writer_methods[] = {
    {"open", (PyCFunction)(void (*)(void))writer_open, METH_VARARGS | METH_CLASS,
     "open(path, fields, check, overwrite, resume, shard_bytes, num_threads, metadata, classes, photos, lenient, "
     "on_bad, "
     "max_side, quality)"},
    {"count", writer_count, METH_NOARGS, "count(): samples so far"},
    {"add", writer_add, METH_O, "add(buffers): one sample; its id"},
    {"add_samples", writer_add_samples, METH_VARARGS, "add_samples(dataset, fields, begin, n): of a data set"},
    {"add_columns", writer_add_columns, METH_VARARGS, "add_columns(buffers, n): n samples"},
    {"bad", writer_bad, METH_NOARGS, "bad(): (index, skipped, name, reason) of each broken sample"},
    {"as_came", writer_as_came, METH_NOARGS, "as_came(): {reason: photos} of those that stay as they came"},
    {"warned", writer_warned, METH_NOARGS, "warned(): {kind: photos} of those decoded with warnings"},
    {"boxes", writer_boxes, METH_O, "boxes(fields): {field: (counts, what is suspect or None)} of fields of boxes"},
    {"set_source", writer_set_source, METH_O, "set_source(Dataset): the file is a conversion of this"},
    {"finish", writer_finish, METH_VARARGS,
     "finish(metadata=None): makes the file visible; metadata: JSON text in the place of what was given"},
    {"free", writer_free, METH_O, "free(keep_partial): ends the writer"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot writer_slots[] = {
    {Py_tp_doc, (void *)"A handle of a writer."},
    {Py_tp_dealloc, (void *)writer_dealloc},
    {Py_tp_methods, writer_methods},
    {0, NULL},
};

PyType_Spec py_writer_spec = PY_TYPE(Writer, struct writer, writer_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);
