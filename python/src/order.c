/* Orders of samples that follow those of others (leat_dependent_order), without a port. */
#include "leat_py.h"

static void release(Py_buffer *buffers, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++)
        PyBuffer_Release(&buffers[i]);
    PyMem_Free(buffers);
}

/* The runs of a list of (buffer of int64, begin); NULL with an exception. They end with `buffers`. */
static struct leat_dependent_run *take_runs(PyObject *list, Py_ssize_t n, Py_buffer *buffers, Py_ssize_t *taken)
{
    struct leat_dependent_run *runs = PyMem_Calloc((size_t)n + 1, sizeof *runs);
    if (!runs)
        return (struct leat_dependent_run *)(void *)PyErr_NoMemory();
    for (*taken = 0; *taken < n; ++*taken) {
        unsigned long long begin;
        if (!PyArg_ParseTuple(PyList_GetItem(list, *taken), "y*K", &buffers[*taken], &begin)) {
            PyMem_Free(runs);
            return NULL;
        }
        runs[*taken] =
            (struct leat_dependent_run){buffers[*taken].buf, (uint64_t)buffers[*taken].len / sizeof(int64_t), begin};
    }
    return runs;
}

/* dependent_order(ids, runs, key, out) -> shared: buffers of as many int64; runs: a list of (buffer of int64, begin).
 */
PyObject *py_dependent_order(PyObject *module, PyObject *args)
{
    Py_buffer ids, out;
    PyObject *list, *result = NULL;
    unsigned long long key;
    struct leat_error error;
    uint64_t shared = 0;
    if (!PyArg_ParseTuple(args, "y*O!Kw*:dependent_order", &ids, &PyList_Type, &list, &key, &out))
        return NULL;
    const Py_ssize_t n = PyList_Size(list);
    Py_ssize_t taken = 0;
    Py_buffer *buffers = PyMem_Calloc((size_t)n + 1, sizeof *buffers);
    struct leat_dependent_run *runs = buffers ? take_runs(list, n, buffers, &taken) : NULL;
    if (!buffers)
        PyErr_NoMemory();
    else if (runs && out.len < ids.len)
        PyErr_SetString(PyExc_ValueError, "dependent_order: out has room for len(ids) numbers");
    else if (runs) {
        int rc;
        PY_WITHOUT_GIL(rc = leat_dependent_order(ids.buf, (uint64_t)ids.len / sizeof(int64_t), runs, (size_t)n, key,
                                                 out.buf, &shared, &error));
        result = rc ? py_raise(&error) : PyLong_FromUnsignedLongLong(shared);
    }
    PyMem_Free(runs);
    release(buffers, taken);
    PyBuffer_Release(&ids);
    PyBuffer_Release(&out);
    return result;
}
