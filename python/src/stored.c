/* Data sets of arrays that lie in files: leat/stored.h. Tables and texts stay with the Python objects that hold them.
 */
#include "leat/stored.h"

#include <stdlib.h>
#include <string.h>

#include "leat_py.h"

/* A tuple of at most LEAT_STORED_DIMS sizes. Their number; -1: an exception is set. */
static int sizes_of(PyObject *tuple, uint64_t *out)
{
    const Py_ssize_t n = PyTuple_Size(tuple);
    if (n > LEAT_STORED_DIMS) {
        PyErr_SetString(PyExc_ValueError, "stored: an array has at most 8 dimensions");
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        out[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(tuple, i));
        if (PyErr_Occurred())
            return -1;
    }
    return (int)n;
}

/* (name, item, shape, chunk, address of chunks, n_chunks, offset, [(filter, arg)], fill, files, address of sizes or 0,
 * address of times or 0). Free `files` of it. */
static bool array_of(PyObject *tuple, struct leat_stored_array *out)
{
    PyObject *shape, *chunk, *filters, *files;
    unsigned long long chunks, n_chunks, offset, sizes, times;
    unsigned item;
    const char *fill;
    Py_ssize_t fill_bytes;
    size_t n_files;
    if (!PyArg_ParseTuple(tuple, "sIO!O!KKKO!y#OKK:stored", &out->name, &item, &PyTuple_Type, &shape, &PyTuple_Type,
                          &chunk, &chunks, &n_chunks, &offset, &PyList_Type, &filters, &fill, &fill_bytes, &files,
                          &sizes, &times))
        return false;
    const int ndim = sizes_of(shape, out->shape);
    if (ndim < 0 || sizes_of(chunk, out->chunk) < 0)
        return false;
    out->ndim = (unsigned)ndim;
    out->item = item;
    out->chunks = (const struct leat_stored_chunk *)(uintptr_t)chunks;
    out->n_chunks = n_chunks;
    out->offset = offset;
    out->sizes = (const uint64_t *)(uintptr_t)sizes;
    out->times = (const int64_t *)(uintptr_t)times;
    memcpy(out->fill, fill, (size_t)fill_bytes < sizeof out->fill ? (size_t)fill_bytes : sizeof out->fill);
    for (Py_ssize_t i = 0; i < PyList_Size(filters); i++) {
        unsigned kind, arg;
        if (i >= LEAT_STORED_FILTERS) {
            PyErr_SetString(PyExc_ValueError, "stored: an array has at most 8 filters");
            return false;
        }
        if (!PyArg_ParseTuple(PyList_GetItem(filters, i), "II", &kind, &arg))
            return false;
        out->filters[out->n_filters++] = (struct leat_stored_filter){(enum leat_stored_filter_kind)kind, arg};
    }
    if (!(out->files = py_strings_of(files, &n_files)))
        return false;
    out->n_files = n_files;
    return true;
}

/* matrix_entries(path, text, line, n_rows, n_columns, pattern, rows, columns, values) -> (entries, line): of lines of
 * Matrix Market; the arrays have room for as many as there are lines */
PyObject *py_matrix_entries(PyObject *module, PyObject *args)
{
    Py_buffer text, rows, columns, values;
    unsigned long long line, n_rows, n_columns;
    int pattern, rc = LEAT_OK;
    const char *path;
    uint64_t n = 0, lines = 1;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "sy*KKKpw*w*w*:matrix_entries", &path, &text, &line, &n_rows, &n_columns, &pattern,
                          &rows, &columns, &values))
        return NULL;
    for (const char *p = text.buf, *end = p + text.len; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++)
        lines++;
    struct leat_matrix_lines m = {.path = path,
                                  .line = line,
                                  .n_rows = n_rows,
                                  .n_columns = n_columns,
                                  .pattern = pattern,
                                  .rows = rows.buf,
                                  .columns = columns.buf,
                                  .values = values.buf};
    const bool good = (uint64_t)rows.len >= 4 * lines && (uint64_t)columns.len >= 4 * lines &&
                      (uint64_t)values.len >= 8 * lines && n_rows <= INT32_MAX && n_columns <= INT32_MAX;
    if (good)
        PY_WITHOUT_GIL(rc = leat_matrix_lines(&m, text.buf, (size_t)text.len, &n, &error));
    else
        PyErr_SetString(PyExc_ValueError, "matrix_entries: the arrays have no room, or the matrix is too large");
    PyBuffer_Release(&text);
    PyBuffer_Release(&rows);
    PyBuffer_Release(&columns);
    PyBuffer_Release(&values);
    if (!good)
        return NULL;
    return rc ? py_raise(&error) : Py_BuildValue("KK", (unsigned long long)n, (unsigned long long)m.line);
}

/* stored_read(array, first, n, out): its elements */
PyObject *py_stored_read(PyObject *module, PyObject *args)
{
    PyObject *tuple;
    Py_buffer out;
    unsigned long long first, n;
    struct leat_stored_array array = {0};
    struct leat_error error;
    int rc = LEAT_OK;
    if (!PyArg_ParseTuple(args, "O!KKw*:stored_read", &PyTuple_Type, &tuple, &first, &n, &out))
        return NULL;
    bool good = array_of(tuple, &array);
    if (good && (!array.item || (uint64_t)out.len / array.item < n)) {
        PyErr_SetString(PyExc_ValueError, "stored_read: there is no room");
        good = false;
    }
    if (good)
        PY_WITHOUT_GIL(rc = leat_stored_read(&array, first, n, out.buf, &error));
    free((void *)array.files);
    PyBuffer_Release(&out);
    return good ? py_none_or_raise(rc, &error) : NULL;
}

/* stored(schema, count, version, values, dtype of values, columns or None, dtype of columns, address of pointers or 0,
 * address of map or 0, n_map, keep) -> Dataset; keep holds the tables */
PyObject *py_stored_make(PyObject *module, PyObject *args)
{
    PyObject *schema, *values, *columns, *keep;
    const char *version, *value_dtype, *column_dtype;
    unsigned long long count, pointers, map, n_map;
    struct leat_dataset *handle = NULL;
    struct leat_error error;
    struct leat_field *fields;
    struct leat_stored_array column_array = {0};
    struct leat_stored_rows rows = {0};
    int rc = LEAT_OK;
    if (!PyArg_ParseTuple(args, "OKsO!sOsKKKO:stored", &schema, &count, &version, &PyTuple_Type, &values, &value_dtype,
                          &columns, &column_dtype, &pointers, &map, &n_map, &keep))
        return NULL;
    const Py_ssize_t n = py_schema_fields(schema, &fields);
    if (n < 0)
        return NULL;
    bool good = n == 1 && array_of(values, &rows.values) && (columns == Py_None || array_of(columns, &column_array));
    if (good) {
        rows.field = fields[0];
        rows.value_dtype = leat_dtype_from_name(value_dtype);
        rows.columns = columns == Py_None ? NULL : &column_array;
        rows.column_dtype = leat_dtype_from_name(column_dtype);
        rows.pointers = (const int64_t *)(uintptr_t)pointers;
        rows.map = (const int32_t *)(uintptr_t)map;
        rows.n_map = n_map;
        Py_INCREF(keep);
        PY_WITHOUT_GIL(rc = leat_dataset_from_stored(&rows, count, version, py_let_go, keep, &handle, &error));
        if (rc)
            Py_DECREF(keep);
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "stored: one field is needed");
    }
    free((void *)rows.values.files);
    free((void *)column_array.files);
    free(fields);
    if (!good)
        return NULL;
    return rc ? py_raise(&error) : py_dataset_new(handle);
}
