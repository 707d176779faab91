/*
 * Columns beside a data set (leat/columns.h). leat/stores/store.py makes arrays of its inputs and outputs; here they
 * are handed to the library, without the GIL. The library's functions may be called from several threads at a time, so
 * there is no guard: the handle is closed when nobody refers to the object any more.
 */
#include "leat/columns.h"
#include "leat_py.h"

#include <stdlib.h>
#include <string.h>

struct columns {
    PyObject_HEAD struct leat_columns *handle;
};

/* open(path, fields or None, keyed, fingerprint or None, read_only) */
static PyObject *columns_open(PyTypeObject *type, PyObject *args)
{
    struct leat_columns_options options = LEAT_COLUMNS_OPTIONS_INIT;
    struct leat_field *fields = NULL;
    struct leat_error error;
    PyObject *path = NULL, *list;
    int keyed, read_only, rc;
    if (!PyArg_ParseTuple(args, "O&Opzp:open", py_path_or_none, &path, &list, &keyed, &options.fingerprint, &read_only))
        return NULL;
    struct columns *c = NULL;
    Py_ssize_t n = list == Py_None ? 0 : py_schema_fields(list, &fields);
    if (n >= 0 && path)
        c = py_object_new(type);
    if (c) {
        options.fields = fields;
        options.n_fields = (size_t)n;
        options.keyed = keyed != 0;
        options.read_only = read_only != 0;
        const char *name = PyBytes_AsString(path);
        PY_WITHOUT_GIL(rc = leat_columns_open(name, &options, &c->handle, &error));
        if (rc) {
            Py_CLEAR(c);
            py_raise(&error);
        }
    }
    Py_XDECREF(path);
    free(fields);
    return (PyObject *)c;
}

static void columns_dealloc(PyObject *self)
{
    struct columns *c = (struct columns *)self;
    PY_WITHOUT_GIL(leat_columns_close(c->handle));
    py_object_free(self);
}

/* Ids and keys of n rows, 8 bytes each. */
struct rows {
    Py_buffer ids, keys;
    uint64_t n;
    bool keyed;
};

static void rows_release(struct rows *rows)
{
    PyBuffer_Release(&rows->ids);
    if (rows->keyed)
        PyBuffer_Release(&rows->keys);
}

static bool rows_get(struct rows *rows, PyObject *ids, PyObject *keys)
{
    rows->keyed = false;
    if (PyObject_GetBuffer(ids, &rows->ids, PyBUF_SIMPLE))
        return false;
    rows->n = (uint64_t)rows->ids.len / sizeof(uint64_t);
    if (keys == Py_None)
        return true;
    if (!PyObject_GetBuffer(keys, &rows->keys, PyBUF_SIMPLE)) {
        rows->keyed = true;
        if (rows->keys.len == rows->ids.len)
            return true;
        PyErr_SetString(PyExc_ValueError, "as many keys as ids are needed");
    }
    rows_release(rows);
    return false;
}

static const uint64_t *keys_of(const struct rows *rows)
{
    return rows->keyed ? rows->keys.buf : NULL;
}

/* Buffers of a call, released together. */
struct buffers {
    size_t n;
    Py_buffer of[2 * LEAT_COLUMNS_MAX_FIELDS + 1];
};

static void *buffer_get(struct buffers *buffers, PyObject *object, int flags, uint64_t bytes)
{
    Py_buffer *view = &buffers->of[buffers->n];
    if (PyObject_GetBuffer(object, view, flags))
        return NULL;
    buffers->n++;
    if ((uint64_t)view->len >= bytes)
        return view->buf;
    PyErr_SetString(PyExc_ValueError, "a buffer is too small");
    return NULL;
}

static void buffers_release(struct buffers *buffers)
{
    for (size_t i = 0; i < buffers->n; i++)
        PyBuffer_Release(&buffers->of[i]);
}

/* Bytes of one value, or of one row of one that varies. */
static uint64_t item_bytes(const struct leat_field *f, enum leat_dtype dtype, bool *ragged)
{
    uint64_t bytes = leat_dtype_size(dtype);
    *ragged = f->ndim && f->shape[0] == -1;
    for (unsigned d = *ragged; d < f->ndim; d++)
        bytes *= (uint64_t)f->shape[d];
    return bytes;
}

static bool column_get(struct buffers *buffers, PyObject *item, const struct leat_field *field, uint64_t n,
                       struct leat_column *out)
{
    PyObject *data, *offsets;
    const char *dtype;
    bool ragged;
    if (!item || !PyArg_ParseTuple(item, "OsO", &data, &dtype, &offsets))
        return false;
    out->dtype = leat_dtype_from_name(dtype);
    const uint64_t bytes = item_bytes(field, out->dtype, &ragged);
    uint64_t rows = n;
    if (offsets != Py_None) {
        out->offsets = buffer_get(buffers, offsets, PyBUF_SIMPLE, (n + 1) * sizeof(int64_t));
        if (!out->offsets)
            return false;
        rows = (uint64_t)out->offsets[n];
    }
    if (bytes && rows > UINT64_MAX / bytes)
        return PyErr_SetString(PyExc_ValueError, "offsets are too large"), false;
    out->data = buffer_get(buffers, data, PyBUF_SIMPLE, rows * bytes);
    return !PyErr_Occurred();
}

/* write(ids, keys or None, [(data, dtype, offsets or None)]) */
static PyObject *columns_write(PyObject *self, PyObject *args)
{
    struct leat_columns *c = ((struct columns *)self)->handle;
    struct leat_column columns[LEAT_COLUMNS_MAX_FIELDS] = {0};
    struct buffers buffers = {0};
    struct leat_error error;
    struct rows rows;
    PyObject *ids, *keys, *list;
    size_t n;
    int rc = 0;
    if (!PyArg_ParseTuple(args, "OOO!:write", &ids, &keys, &PyList_Type, &list) || !rows_get(&rows, ids, keys))
        return NULL;
    const struct leat_field *fields = leat_columns_fields(c, &n);
    bool ok = (size_t)PyList_Size(list) == n;
    if (!ok)
        PyErr_SetString(PyExc_ValueError, "a column for each field is needed");
    for (size_t i = 0; ok && i < n; i++)
        ok = column_get(&buffers, PyList_GetItem(list, (Py_ssize_t)i), &fields[i], rows.n, &columns[i]);
    if (ok)
        PY_WITHOUT_GIL(rc = leat_columns_write(c, rows.ids.buf, keys_of(&rows), rows.n, columns, &error));
    buffers_release(&buffers);
    rows_release(&rows);
    return ok ? py_none_or_raise(rc, &error) : NULL;
}

/* The values read of fields that vary: bytes, in a list with None for the others. */
static PyObject *values_of(const struct leat_field *fields, const struct leat_column_out *out, size_t n, uint64_t rows)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        bool ragged;
        const uint64_t bytes = item_bytes(&fields[i], fields[i].dtype == LEAT_I8 ? LEAT_F32 : fields[i].dtype, &ragged);
        py_list_add(&list, out[i].wanted && ragged
                               ? py_memory_copy(out[i].data, LEAT_U8, (uint64_t)out[i].offsets[rows] * bytes)
                               : Py_NewRef(Py_None));
    }
    return list;
}

/* gather(ids, keys or None, [None, or a buffer for values, or for offsets of a field that varies], mark, present)
 * -> [None or bytes] */
static PyObject *columns_gather(PyObject *self, PyObject *args)
{
    struct leat_columns *c = ((struct columns *)self)->handle;
    struct leat_column_out out[LEAT_COLUMNS_MAX_FIELDS] = {0};
    struct buffers buffers = {0};
    struct leat_error error;
    struct rows rows;
    PyObject *ids, *keys, *list, *present_object, *made = NULL;
    size_t n;
    int rc = 0, mark;
    if (!PyArg_ParseTuple(args, "OOO!pO:gather", &ids, &keys, &PyList_Type, &list, &mark, &present_object) ||
        !rows_get(&rows, ids, keys))
        return NULL;
    const struct leat_field *fields = leat_columns_fields(c, &n);
    bool ok = (size_t)PyList_Size(list) == n;
    if (!ok)
        PyErr_SetString(PyExc_ValueError, "an item for each field is needed");
    uint8_t *present = ok ? buffer_get(&buffers, present_object, PyBUF_WRITABLE, rows.n) : NULL;
    for (size_t i = 0; present && ok && i < n; i++) {
        PyObject *item = PyList_GetItem(list, (Py_ssize_t)i);
        bool ragged;
        const uint64_t bytes = item_bytes(&fields[i], fields[i].dtype == LEAT_I8 ? LEAT_F32 : fields[i].dtype, &ragged);
        out[i].wanted = item != Py_None;
        if (!out[i].wanted)
            continue;
        void *p = buffer_get(&buffers, item, PyBUF_WRITABLE, ragged ? (rows.n + 1) * sizeof(int64_t) : rows.n * bytes);
        if (ragged)
            out[i].offsets = p;
        else
            out[i].data = p;
        ok = p != NULL;
    }
    if (present && ok) {
        PY_WITHOUT_GIL(
            rc = leat_columns_gather(c, rows.ids.buf, keys_of(&rows), rows.n, out, mark != 0, present, &error));
        made = rc ? py_raise(&error) : values_of(fields, out, n, rows.n);
        for (size_t i = 0; i < n; i++)
            if (out[i].offsets)
                leat_free(out[i].data);
    }
    buffers_release(&buffers);
    rows_release(&rows);
    return made;
}

/* expect(ids, keys or None) */
static PyObject *columns_expect(PyObject *self, PyObject *args)
{
    struct rows rows;
    PyObject *ids, *keys;
    if (!PyArg_ParseTuple(args, "OO:expect", &ids, &keys) || !rows_get(&rows, ids, keys))
        return NULL;
    PY_WITHOUT_GIL(leat_columns_expect(((struct columns *)self)->handle, rows.ids.buf, keys_of(&rows), rows.n));
    rows_release(&rows);
    return Py_NewRef(Py_None);
}

static PyObject *columns_flush(PyObject *self, PyObject *none)
{
    struct leat_error error;
    int rc;
    PY_WITHOUT_GIL(rc = leat_columns_flush(((struct columns *)self)->handle, &error));
    return py_none_or_raise(rc, &error);
}

/* copy(path, overwrite) */
static PyObject *columns_copy(PyObject *self, PyObject *args)
{
    struct leat_error error;
    PyObject *path = NULL;
    int overwrite, rc;
    if (!PyArg_ParseTuple(args, "O&p:copy", py_path_or_none, &path, &overwrite))
        return NULL;
    const char *name = PyBytes_AsString(path);
    PY_WITHOUT_GIL(rc = leat_columns_copy(((struct columns *)self)->handle, name, overwrite != 0, &error));
    Py_DECREF(path);
    return py_none_or_raise(rc, &error);
}

/* rows() -> (ids, keys) */
static PyObject *columns_rows(PyObject *self, PyObject *none)
{
    struct leat_error error;
    uint64_t *ids, *keys, n;
    int rc;
    PY_WITHOUT_GIL(rc = leat_columns_list(((struct columns *)self)->handle, &ids, &keys, &n, &error));
    if (rc)
        return py_raise(&error);
    PyObject *a = py_memory_copy(ids, LEAT_U64, n), *b = py_memory_copy(keys, LEAT_U64, n), *both = NULL;
    if (a && b)
        both = PyTuple_Pack(2, a, b);
    Py_XDECREF(a);
    Py_XDECREF(b);
    leat_free(ids);
    leat_free(keys);
    return both;
}

/* about() -> (keyed, fingerprint, [(name, dtype, shape, dtype of sparse values, columns)]) */
static PyObject *columns_about(PyObject *self, PyObject *none)
{
    const struct leat_columns *c = ((struct columns *)self)->handle;
    size_t n;
    const struct leat_field *fields = leat_columns_fields(c, &n);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++)
        py_list_add(&list, Py_BuildValue("ssNsL", fields[i].name, leat_dtype_name(fields[i].dtype),
                                         py_integers(fields[i].shape, fields[i].ndim), leat_dtype_name(fields[i].item),
                                         (long long)fields[i].columns));
    return list ? Py_BuildValue("ONN", leat_columns_keyed(c) ? Py_True : Py_False,
                                PyUnicode_DecodeUTF8(leat_columns_fingerprint(c),
                                                     (Py_ssize_t)strlen(leat_columns_fingerprint(c)), "replace"),
                                list)
                : NULL;
}

static PyMethodDef columns_methods[] = {
    {"open", (PyCFunction)(void (*)(void))columns_open, METH_VARARGS | METH_CLASS,
     "open(path, fields, keyed, fingerprint, read_only)"},
    {"write", columns_write, METH_VARARGS, "write(ids, keys, columns)"},
    {"gather", columns_gather, METH_VARARGS, "gather(ids, keys, buffers, mark, present)"},
    {"expect", columns_expect, METH_VARARGS, "expect(ids, keys): they will be read"},
    {"flush", columns_flush, METH_NOARGS, "flush(): what was written lasts"},
    {"copy", columns_copy, METH_VARARGS, "copy(path, overwrite): another file of it"},
    {"rows", columns_rows, METH_NOARGS, "rows(): (ids, keys) of those that there are"},
    {"about", columns_about, METH_NOARGS, "about(): (keyed, fingerprint, fields)"},
    {0},
};
static PyType_Slot columns_slots[] = {
    {Py_tp_dealloc, (void *)columns_dealloc},
    {Py_tp_methods, columns_methods},
    {0, NULL},
};
PyType_Spec py_columns_spec = PY_TYPE(Columns, struct columns, columns_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);
