/* Data sets to which samples in memory of Python objects are lent: for leat.apply. */
#include "leat/apply.h"

#include <stdlib.h>

#include "leat_py.h"

/* lent(schema) -> Dataset */
PyObject *py_lent_make(PyObject *module, PyObject *schema)
{
    struct leat_dataset *handle = NULL;
    struct leat_field *fields;
    struct leat_error error;
    const Py_ssize_t n = py_schema_fields(schema, &fields);
    if (n < 0)
        return NULL;
    const int rc = leat_dataset_lent(fields, (size_t)n, &handle, &error);
    free(fields);
    return rc ? py_raise(&error) : py_dataset_new(handle);
}

/* The bytes of each object of a list: the caller keeps the objects, and these their memory. */
static bool note(PyObject *list, Py_ssize_t n, struct leat_value_ref *out)
{
    if (PyList_Size(list) != n) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "all fields have as many values as there are samples");
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_buffer view;
        if (PyObject_GetBuffer(PyList_GetItem(list, i), &view, PyBUF_SIMPLE))
            return false;
        out[i] = (struct leat_value_ref){.data = view.buf, .length = (uint64_t)view.len};
        PyBuffer_Release(&view);
    }
    return true;
}

/* lend([[value, ...] of each field], n): the caller keeps the values until the next call */
PyObject *py_dataset_lend(PyObject *self, PyObject *args)
{
    PyObject *columns;
    Py_ssize_t n;
    struct leat_error error;
    int rc = LEAT_OK;
    if (!PyArg_ParseTuple(args, "O!n:lend", &PyList_Type, &columns, &n))
        return NULL;
    const Py_ssize_t n_fields = PyList_Size(columns);
    struct leat_value_ref *values = calloc((size_t)(n_fields * n) + 1, sizeof *values);
    bool good = values || PyErr_NoMemory();
    for (Py_ssize_t f = 0; good && f < n_fields; f++)
        good = note(PyList_GetItem(columns, f), n, values + f * n);
    if (good)
        PY_WITHOUT_GIL(rc = leat_dataset_lend(py_dataset_handle(self), values, (uint64_t)n, &error));
    free(values);
    if (!good)
        return NULL;
    return rc ? py_raise(&error) : Py_NewRef(Py_None);
}
