/*
 * Data sets: immutable handles that any thread may use, so nothing here is locked. Calls that may read from disk run
 * without the GIL.
 */
#include "leat_py.h"

#include <stdlib.h>

struct dataset {
    PyObject_HEAD struct leat_dataset *handle;
};

struct leat_dataset *py_dataset_handle(PyObject *object)
{
    return ((struct dataset *)object)->handle;
}

PyObject *py_dataset_new(struct leat_dataset *handle)
{
    struct dataset *d = py_object_new(py_dataset_type);
    if (!d) {
        leat_dataset_release(handle);
        return NULL;
    }
    d->handle = handle;
    return (PyObject *)d;
}

static void dataset_dealloc(PyObject *self)
{
    leat_dataset_release(((struct dataset *)self)->handle);
    py_object_free(self);
}

/* A new handle, or the error; a signal handler's exception goes first. */
static PyObject *opened(int rc, struct leat_dataset *handle, const struct leat_error *error)
{
    if (!rc && !PyErr_Occurred())
        return py_dataset_new(handle);
    if (!rc)
        leat_dataset_release(handle);
    return py_raise(error);
}

static PyObject *dataset_open(PyTypeObject *type, PyObject *args)
{
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    struct leat_dataset *handle = NULL;
    struct leat_error error;
    PyObject *path_list, *index_dir = NULL, *annotations = NULL, *features = NULL, *class_list, *field_list;
    size_t n_paths = 0;
    struct leat_field *fields = NULL;
    Py_ssize_t n_fields = 0;
    int labels, recheck, on_bad, documents, sort, rc = 0;
    unsigned long long block;
    if (!PyArg_ParseTuple(args, "O!siiO&O&iO!O!ipO&K:open", &PyList_Type, &path_list, &options.format, &labels,
                          &recheck, py_path_or_none, &index_dir, py_path_or_none, &annotations, &on_bad, &PyList_Type,
                          &class_list, &PyList_Type, &field_list, &documents, &sort, py_path_or_none, &features,
                          &block))
        return NULL;
    const char **paths = py_strings_of(path_list, &n_paths), **classes = NULL;
    bool good = paths && (classes = py_strings_of(class_list, &options.n_classes)) &&
                (n_fields = py_schema_fields(field_list, &fields)) >= 0;
    if (good) {
        options.classes = classes;
        options.fields = fields;
        options.n_fields = (size_t)n_fields;
        options.labels = (enum leat_labels)labels;
        options.recheck = (enum leat_recheck)recheck;
        options.on_bad = (enum leat_on_bad)on_bad;
        options.documents = (enum leat_documents)documents;
        options.sort = sort;
        options.block = block;
        options.features = features ? PyBytes_AsString(features) : NULL;
        options.index_dir = index_dir ? PyBytes_AsString(index_dir) : NULL;
        options.annotations = annotations ? PyBytes_AsString(annotations) : NULL;
        PY_WITHOUT_GIL(rc = n_paths == 1 ? leat_dataset_open(paths[0], &options, &handle, &error)
                                         : leat_dataset_open_files(paths, n_paths, &options, &handle, &error));
    }
    free(paths);
    free(classes);
    free(fields);
    Py_XDECREF(index_dir);
    Py_XDECREF(annotations);
    Py_XDECREF(features);
    return good ? opened(rc, handle, &error) : NULL;
}

PY_METHOD(dataset_count, PyLong_FromUnsignedLongLong(leat_dataset_count(py_dataset_handle(self))))

/* (name, kind, dtype, layout, flags, shape, role, normalized, pairs, item, columns) of one field. */
static PyObject *describe_field(const struct leat_field *f)
{
    return Py_BuildValue(
        "(sisiINiNNsL)", f->name, (int)f->kind, leat_dtype_name(f->dtype), (int)f->layout, f->flags,
        py_integers(f->shape, f->ndim), (int)f->role, PyBool_FromLong(f->normalized),
        PyBytes_FromStringAndSize((const char *)f->pairs, (Py_ssize_t)(2 * f->n_pairs * sizeof *f->pairs)),
        leat_dtype_name(f->item), (long long)f->columns);
}

static PyObject *dataset_fields(PyObject *self, PyObject *none)
{
    size_t n = 0;
    const struct leat_field *fields = leat_dataset_fields(py_dataset_handle(self), &n);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++)
        py_list_add(&list, describe_field(&fields[i]));
    return list;
}

static PyObject *dataset_classes(PyObject *self, PyObject *none)
{
    size_t n = 0;
    const char *const *names = leat_dataset_classes(py_dataset_handle(self), &n);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++)
        py_list_add(&list, PyUnicode_DecodeFSDefault(names[i]));
    return list;
}

PY_METHOD(dataset_metadata, PyUnicode_FromString(leat_dataset_metadata(py_dataset_handle(self))))
PY_METHOD(dataset_notice, PyUnicode_DecodeFSDefault(leat_dataset_notice(py_dataset_handle(self))))

static PyObject *dataset_fingerprint(PyObject *self, PyObject *none)
{
    uint8_t bytes[16];
    leat_dataset_fingerprint(py_dataset_handle(self), bytes);
    return PyBytes_FromStringAndSize((const char *)bytes, sizeof bytes);
}

static PyObject *dataset_about(PyObject *self, PyObject *none)
{
    struct leat_error error;
    char *json;
    int rc;
    PY_WITHOUT_GIL(rc = leat_dataset_about(py_dataset_handle(self), &json, &error));
    return rc ? py_raise(&error) : py_text_take(json);
}

static PyObject *dataset_select(PyObject *self, PyObject *positions)
{
    struct leat_dataset *handle = NULL;
    struct leat_error error;
    Py_buffer view;
    int rc;
    if (PyObject_GetBuffer(positions, &view, PyBUF_SIMPLE))
        return NULL;
    PY_WITHOUT_GIL(rc = leat_dataset_select(py_dataset_handle(self), view.buf, (uint64_t)view.len / sizeof(int64_t),
                                            &handle, &error));
    PyBuffer_Release(&view);
    return rc ? py_raise(&error) : py_dataset_new(handle);
}

static PyObject *dataset_where(PyObject *self, PyObject *args)
{
    struct leat_dataset *handle = NULL;
    struct leat_error error;
    const char *clause;
    int rc;
    if (!PyArg_ParseTuple(args, "s:where", &clause))
        return NULL;
    PY_WITHOUT_GIL(rc = leat_dataset_where(py_dataset_handle(self), clause, &handle, &error));
    return opened(rc, handle, &error);
}

static PyObject *dataset_combine(PyObject *self, PyObject *args)
{
    struct leat_dataset *handle = NULL;
    struct leat_error error;
    PyObject *other;
    int how, rc;
    if (!PyArg_ParseTuple(args, "O!i:combine", py_dataset_type, &other, &how))
        return NULL;
    PY_WITHOUT_GIL(rc = leat_dataset_combine(py_dataset_handle(self), py_dataset_handle(other), (enum leat_combine)how,
                                             &handle, &error));
    return opened(rc, handle, &error);
}

static PyObject *dataset_slice(PyObject *self, PyObject *args)
{
    unsigned long long begin, end, step;
    struct leat_dataset *handle = NULL;
    struct leat_error error;
    int rc;
    if (!PyArg_ParseTuple(args, "KKK:slice", &begin, &end, &step))
        return NULL;
    PY_WITHOUT_GIL(rc = leat_dataset_slice(py_dataset_handle(self), begin, end, step, &handle, &error));
    return rc ? py_raise(&error) : py_dataset_new(handle);
}

static PyObject *dataset_split(PyObject *self, PyObject *args)
{
    struct leat_dataset **parts = NULL;
    struct leat_error error;
    Py_buffer fractions;
    unsigned long long seed;
    PyObject *list = NULL;
    if (!PyArg_ParseTuple(args, "y*K:split", &fractions, &seed))
        return NULL;
    size_t n = (size_t)fractions.len / sizeof(double);
    parts = calloc(n ? n : 1, sizeof(struct leat_dataset *));
    if (!parts) {
        PyErr_NoMemory();
        goto out;
    }
    int rc;
    PY_WITHOUT_GIL(rc = leat_dataset_split(py_dataset_handle(self), fractions.buf, n, seed, parts, &error));
    if (rc) {
        py_raise(&error);
        goto out;
    }
    list = PyList_New(0);
    for (size_t i = 0; i < n; i++) {
        PyObject *part = list ? py_dataset_new(parts[i]) : NULL;
        if (!part && !list)
            leat_dataset_release(parts[i]);
        else
            py_list_add(&list, part);
    }
out:
    free(parts);
    PyBuffer_Release(&fractions);
    return list;
}

struct leat_dataset **py_datasets_of(PyObject *list, size_t *n)
{
    const Py_ssize_t count = PyList_Size(list);
    struct leat_dataset **parts = count < 0 ? NULL : calloc((size_t)count + 1, sizeof(struct leat_dataset *));
    if (count >= 0 && !parts)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; parts && i < count; i++) {
        PyObject *part = PyList_GetItem(list, i);
        if (Py_TYPE(part) == py_dataset_type) {
            parts[i] = py_dataset_handle(part);
            continue;
        }
        PyErr_SetString(PyExc_TypeError, "a list of data sets is needed");
        free(parts);
        return NULL;
    }
    *n = (size_t)count;
    return parts;
}

PyObject *py_dataset_concat(PyObject *module, PyObject *list)
{
    struct leat_dataset *handle = NULL;
    struct leat_error error;
    size_t n;
    struct leat_dataset **parts = py_datasets_of(list, &n);
    if (!parts)
        return NULL;
    int rc = leat_dataset_concat(parts, n, &handle, &error);
    free(parts);
    return rc ? py_raise(&error) : py_dataset_new(handle);
}

static PyObject *dataset_ids(PyObject *self, PyObject *args)
{
    unsigned long long position, n;
    struct leat_error error;
    int rc;
    if (!PyArg_ParseTuple(args, "KK:ids", &position, &n))
        return NULL;
    if (n > (unsigned long long)PY_SSIZE_T_MAX / sizeof(int64_t))
        return PyErr_NoMemory();
    PyObject *bytes = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(n * sizeof(int64_t)));
    if (!bytes)
        return NULL;
    int64_t *ids = (int64_t *)(void *)PyByteArray_AsString(bytes);
    PY_WITHOUT_GIL(rc = leat_dataset_ids(py_dataset_handle(self), position, n, ids, &error));
    if (rc) {
        Py_DECREF(bytes);
        return py_raise(&error);
    }
    return bytes;
}

/* One stored value: bytes of a value without a shape of its own, else Memory. A photo may be either: stored as pixels
 * it has a shape. */
static PyObject *dataset_read(PyObject *self, PyObject *args)
{
    unsigned long long position;
    Py_ssize_t field;
    int as_bytes, rc;
    struct leat_value value;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "Knp:read", &position, &field, &as_bytes))
        return NULL;
    PY_WITHOUT_GIL(rc = leat_dataset_read(py_dataset_handle(self), position, (size_t)field, &value, &error));
    if (!rc && PyErr_Occurred()) /* a signal handler's */
        leat_value_clear(&value);
    if (rc || PyErr_Occurred())
        return py_raise(&error);
    if (!as_bytes || value.ndim > 1)
        return py_memory_of_value(&value, self);
    PyObject *bytes = PyBytes_FromStringAndSize(value.data, (Py_ssize_t)value.length);
    leat_value_clear(&value);
    return bytes;
}

/* The source of a value: (path, sample, line, offset). */
static PyObject *dataset_place(PyObject *self, PyObject *args)
{
    unsigned long long position;
    Py_ssize_t field;
    struct leat_sample_place place;
    struct leat_error error;
    int rc;
    if (!PyArg_ParseTuple(args, "Kn:place", &position, &field))
        return NULL;
    PY_WITHOUT_GIL(rc = leat_dataset_place(py_dataset_handle(self), position, (size_t)field, &place, &error));
    if (rc)
        return py_raise(&error);
    return Py_BuildValue("NKKK", PyUnicode_DecodeFSDefault(place.path), (unsigned long long)place.sample,
                         (unsigned long long)place.line, (unsigned long long)place.offset);
}

static PyObject *dataset_column(PyObject *self, PyObject *args)
{
    Py_ssize_t field;
    int copy, lengths = 0, rc;
    struct leat_value value;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "np|p:column", &field, &copy, &lengths))
        return NULL;
    PY_WITHOUT_GIL(rc = leat_dataset_column(py_dataset_handle(self), (size_t)field, lengths, copy, &value, &error));
    if (!rc && PyErr_Occurred())
        leat_value_clear(&value);
    return rc || PyErr_Occurred() ? py_raise(&error) : py_memory_of_value(&value, self);
}

static PyMethodDef dataset_methods[] = {
    {"open", (PyCFunction)(void (*)(void))dataset_open, METH_VARARGS | METH_CLASS,
     "open(paths, format, labels, recheck, index_dir, annotations, on_bad, classes, fields, documents, sort, "
     "features, block)"},
    {"count", dataset_count, METH_NOARGS, "count(): number of samples"},
    {"fields", dataset_fields, METH_NOARGS,
     "fields(): (name, kind, dtype, layout, flags, shape, role, normalized, pairs, item, columns) of each"},
    {"classes", dataset_classes, METH_NOARGS, "classes(): names"},
    {"metadata", dataset_metadata, METH_NOARGS, "metadata(): JSON text"},
    {"about", dataset_about, METH_NOARGS, "about(): JSON text"},
    {"notice", dataset_notice, METH_NOARGS, "notice(): a text for a person"},
    {"fingerprint", dataset_fingerprint, METH_NOARGS, "fingerprint(): 16 bytes"},
    {"select", dataset_select, METH_O, "select(int64 positions): a view"},
    {"where", dataset_where, METH_VARARGS, "where(clause): a view"},
    {"combine", dataset_combine, METH_VARARGS, "combine(other, how): a view; how: 0 and, 1 or, 2 minus"},
    {"slice", dataset_slice, METH_VARARGS, "slice(begin, end, step): a view"},
    {"split", dataset_split, METH_VARARGS, "split(float64 fractions, seed): views"},
    {"ids", dataset_ids, METH_VARARGS, "ids(position, n): int64 values"},
    {"read", dataset_read, METH_VARARGS, "read(position, field, as_bytes): one stored value"},
    {"place", dataset_place, METH_VARARGS, "place(position, field): (path, sample, line, offset) of its record"},
    {"lend", py_dataset_lend, METH_VARARGS,
     "lend([[value, ...] of each field], n): the caller keeps the values until the next call"},
    {"column", dataset_column, METH_VARARGS,
     "column(field, copy, lengths=False): all values of a field of fixed size; or the bytes of each of one that "
     "varies"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot dataset_slots[] = {
    {Py_tp_doc, (void *)"A handle of a data set."},
    {Py_tp_dealloc, (void *)dataset_dealloc},
    {Py_tp_methods, dataset_methods},
    {0, NULL},
};

PyType_Spec py_dataset_spec = PY_TYPE(Dataset, struct dataset, dataset_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);
