/*
 * The executor that runs functions of a loader's program in worker processes, as a Python object: see worker/worker.h.
 * Waiting is done without the GIL, and so is everything that may call the engine.
 */
#include "leat_py.h"

struct executor {
    PyObject_HEAD struct leat_executor *handle;
    PyObject *board; /* kept as long as it is used */
};

struct leat_executor *py_executor_handle(PyObject *object)
{
    return ((struct executor *)object)->handle;
}

static PyObject *executor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct leat_error error;
    (void)kwargs;
    struct executor *e = PyArg_ParseTuple(args, ":Executor") ? py_object_new(type) : NULL;
    if (e && leat_executor_new(&e->handle, &error)) {
        Py_DECREF(e);
        return py_raise(&error);
    }
    return (PyObject *)e;
}

static void executor_dealloc(PyObject *self)
{
    struct executor *e = (struct executor *)self;
    PY_WITHOUT_GIL(leat_executor_free(e->handle));
    Py_XDECREF(e->board);
    py_object_free(self);
}

static PyObject *executor_attach(PyObject *self, PyObject *object)
{
    struct executor *e = (struct executor *)self;
    struct leat_board *board = py_board_handle(object);
    if (!board)
        return NULL;
    e->board = Py_NewRef(object); /* once */
    PY_WITHOUT_GIL(leat_executor_attach(e->handle, board));
    Py_RETURN_NONE;
}

PY_CHECKED(executor_name, unsigned long long segment; unsigned long long unit;
           const char *name, leat_executor_name(py_executor_handle(self), segment, unit, name, &error), "KKs:name",
           &segment, &unit, &name)

static PyObject *executor_wait(PyObject *self, PyObject *args)
{
    unsigned received;
    enum leat_executor_event event;
    if (!PyArg_ParseTuple(args, "I:wait", &received))
        return NULL;
    PY_WITHOUT_GIL(event = leat_executor_wait(py_executor_handle(self), received));
    return PyLong_FromLong(event);
}

PY_PROCEDURE(executor_row_failed, unsigned long long serial; unsigned long long row; int broken;
             const char *reason,
             leat_executor_row_failed(py_executor_handle(self), serial, row, broken ? LEAT_E_OPERATOR : LEAT_E_IO,
                                      reason),
             "KKps:row_failed", &serial, &row, &broken, &reason)

static PyObject *executor_results(PyObject *self, PyObject *args)
{
    unsigned long long serial;
    Py_buffer results, bytes;
    if (!PyArg_ParseTuple(args, "Ky*y*:results", &serial, &results, &bytes))
        return NULL;
    leat_executor_results(py_executor_handle(self), serial, results.buf,
                          (uint64_t)results.len / sizeof(struct leat_worker_result), bytes.buf, (uint64_t)bytes.len);
    PyBuffer_Release(&results);
    PyBuffer_Release(&bytes);
    Py_RETURN_NONE;
}

PY_PROCEDURE(executor_received, unsigned long long serial; unsigned unit;
             long long spent_ns, leat_executor_received(py_executor_handle(self), serial, unit, spent_ns),
             "KIL:received", &serial, &unit, &spent_ns)

PY_PROCEDURE(executor_worker_died, unsigned worker,
             PY_WITHOUT_GIL(leat_executor_worker_died(py_executor_handle(self), worker)), "I:worker_died", &worker)

static PyObject *executor_ask(PyObject *self, PyObject *begins)
{
    bool value = PyObject_IsTrue(begins) == 1;
    PY_WITHOUT_GIL(leat_executor_ask(py_executor_handle(self), value));
    Py_RETURN_NONE;
}

PY_PROCEDURE(executor_fail, const char *reason, PY_WITHOUT_GIL(leat_executor_break(py_executor_handle(self), reason)),
             "s:fail", &reason)

PY_METHOD(executor_close, (leat_executor_close(py_executor_handle(self)), Py_NewRef(Py_None)))

static PyObject *executor_finish(PyObject *self, PyObject *none)
{
    PY_WITHOUT_GIL(leat_executor_finish(py_executor_handle(self)));
    Py_RETURN_NONE;
}

static PyObject *executor_stats(PyObject *self, PyObject *none)
{
    struct leat_executor_stats s;
    (void)none;
    leat_executor_stats(py_executor_handle(self), &s);
    return Py_BuildValue("LKK", (long long)s.work_ns, (unsigned long long)s.in_flight, (unsigned long long)s.rows);
}

static PyMethodDef executor_methods[] = {
    {"name", executor_name, METH_VARARGS,
     "name(segment, unit, text): what functions are called in a trace; before attach()"},
    {"attach", executor_attach, METH_O, "attach(board): takes the board over"},
    {"wait", executor_wait, METH_VARARGS, "wait(messages received): 0: there is one more; 1: silence; 2: it is closed"},
    {"row_failed", executor_row_failed, METH_VARARGS, "row_failed(serial, row, broken, reason)"},
    {"results", executor_results, METH_VARARGS, "results(serial, [row, output, bytes] as uint64, bytes)"},
    {"received", executor_received, METH_VARARGS, "received(serial, unit, spent_ns): its message is here"},
    {"worker_died", executor_worker_died, METH_VARARGS, "worker_died(worker)"},
    {"ask", executor_ask, METH_O, "ask(begins): somebody waits for a batch, or no longer"},
    {"fail", executor_fail, METH_VARARGS, "fail(reason): all calls, from now on"},
    {"close", executor_close, METH_NOARGS, "close(): workers take nothing more"},
    {"finish", executor_finish, METH_NOARGS, "finish(): no worker uses its board any more"},
    {"stats", executor_stats, METH_NOARGS, "stats(): (work_ns, calls in flight, rows)"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot executor_slots[] = {
    {Py_tp_doc, (void *)"Executor(): runs the functions of one loader's program in workers."},
    {Py_tp_new, (void *)executor_new},
    {Py_tp_dealloc, (void *)executor_dealloc},
    {Py_tp_methods, executor_methods},
    {0, NULL},
};

PyType_Spec py_executor_spec = PY_TYPE(Executor, struct executor, executor_slots, 0);
