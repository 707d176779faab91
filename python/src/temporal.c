/* Graphs of events (leat/temporal.h) for leat/data/temporal.py, which checks what it gives. */
#include "leat_py.h"

#include "leat/temporal.h"

#include <string.h>

/* temporal(Dataset, neighbors, negatives, before, how, by_id, pending, fill, fill_events, address, keep, index_dir) ->
 * Dataset; `address` of the negatives that are given, which `keep` holds, or 0. */
PyObject *py_temporal_make(PyObject *module, PyObject *args)
{
    PyObject *events, *keep;
    struct leat_temporal_options o = LEAT_TEMPORAL_OPTIONS_INIT;
    int before, how, by_id, pending, rc;
    long long fill, fill_events;
    unsigned long long address;
    struct leat_dataset *handle = NULL;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "OIIiippLLKOz:temporal", &events, &o.neighbors, &o.negatives, &before, &how, &by_id,
                          &pending, &fill, &fill_events, &address, &keep, &o.index_dir))
        return NULL;
    if (Py_TYPE(events) != py_dataset_type) {
        PyErr_SetString(PyExc_TypeError, "a data set is needed");
        return NULL;
    }
    o.before = (enum leat_temporal_before)before;
    o.how = (enum leat_negatives)how;
    o.by_id = by_id;
    o.pending = pending;
    o.fill = fill;
    o.fill_events = fill_events;
    o.given = (const int64_t *)(uintptr_t)address;
    o.release = o.given ? py_let_go : NULL;
    o.user = keep;
    if (o.given)
        Py_INCREF(keep);
    struct leat_dataset *of = py_dataset_handle(events);
    PY_WITHOUT_GIL(rc = leat_dataset_temporal(of, &o, &handle, &error));
    if (rc && o.given)
        Py_DECREF(keep);
    return rc ? py_raise(&error) : py_dataset_new(handle);
}

/* temporal_recent(Dataset, n, k, nodes, times, nodes_out, times_out, events_out, count): addresses of arrays */
PyObject *py_temporal_recent(PyObject *module, PyObject *args)
{
    PyObject *graph;
    unsigned long long n, nodes, times, nodes_out, times_out, events_out, count;
    unsigned k;
    int rc;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "OKIKKKKKK:temporal_recent", &graph, &n, &k, &nodes, &times, &nodes_out, &times_out,
                          &events_out, &count))
        return NULL;
    if (Py_TYPE(graph) != py_dataset_type) {
        PyErr_SetString(PyExc_TypeError, "a data set is needed");
        return NULL;
    }
    struct leat_dataset *of = py_dataset_handle(graph);
    PY_WITHOUT_GIL(rc = leat_temporal_recent(of, (const int64_t *)(uintptr_t)nodes, (const void *)(uintptr_t)times, n,
                                             k, (int64_t *)(uintptr_t)nodes_out, (void *)(uintptr_t)times_out,
                                             (int64_t *)(uintptr_t)events_out, (int32_t *)(uintptr_t)count, &error));
    if (rc)
        return py_raise(&error);
    Py_RETURN_NONE;
}

/* temporal_look(Dataset) -> (times are floats, events, nodes) */
PyObject *py_temporal_look(PyObject *module, PyObject *graph)
{
    bool floats;
    uint64_t events, nodes;
    struct leat_error error;
    if (Py_TYPE(graph) != py_dataset_type) {
        PyErr_SetString(PyExc_TypeError, "a data set is needed");
        return NULL;
    }
    if (leat_temporal_look(py_dataset_handle(graph), &floats, &events, &nodes, &error))
        return py_raise(&error);
    return Py_BuildValue("(OKK)", floats ? Py_True : Py_False, (unsigned long long)events, (unsigned long long)nodes);
}
