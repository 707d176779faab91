/*
 * Prompts in groups.
 */
#include "leat/prompts.h"

#include "leat_py.h"

/* Calls progress(done, total), if there is one. 1: it raised. */
static int tell(void *user, uint64_t done, uint64_t total)
{
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *result = PyObject_CallFunction(user, "KK", (unsigned long long)done, (unsigned long long)total);
    const int failed = !result;
    Py_XDECREF(result);
    PyGILState_Release(gil);
    return failed;
}

static const char NAME[] = "leat prompts";

static void let_go(PyObject *capsule)
{
    leat_prompts_release(PyCapsule_GetPointer(capsule, NAME));
}

/* (Dataset, order, groups, tokens, what prompts_simulate takes): bytes of uint32, of three uint64 a group, and three
 * numbers. */
static PyObject *results(struct leat_prompts *prompts, struct leat_dataset *grouped)
{
    uint64_t n, n_groups;
    const uint32_t *order = leat_prompts_order(prompts, &n);
    const struct leat_prompts_group *groups = leat_prompts_groups(prompts, &n_groups);
    const struct leat_prompts_tokens *tokens = leat_prompts_tokens(prompts);
    PyObject *dataset = py_dataset_new(grouped), *kept = dataset ? PyCapsule_New(prompts, NAME, let_go) : NULL;
    if (!kept) {
        Py_XDECREF(dataset);
        return NULL;
    }
    leat_prompts_retain(prompts);
    return Py_BuildValue("Ny#y#(KKK)N", dataset, (const char *)order, (Py_ssize_t)(n * sizeof *order),
                         (const char *)groups, (Py_ssize_t)(n_groups * sizeof *groups), (unsigned long long)tokens->all,
                         (unsigned long long)tokens->grouped, (unsigned long long)tokens->least, kept);
}

/* prompts(Dataset, field, decode, block, seed, progress) -> as above; decode: a buffer of uint32, or None. */
PyObject *py_dataset_prompts(PyObject *module, PyObject *args)
{
    PyObject *dataset, *progress, *result = NULL;
    Py_buffer decode = {0};
    unsigned long long block, seed;
    const char *field;
    struct leat_prompts *prompts = NULL;
    struct leat_dataset *grouped = NULL;
    struct leat_error error;
    int rc;
    if (!PyArg_ParseTuple(args, "Osz*KKO:prompts", &dataset, &field, &decode, &block, &seed, &progress))
        return NULL;
    const struct leat_prompts_options options = {.field = field,
                                                 .decode = decode.buf,
                                                 .n_decode = (uint64_t)decode.len / sizeof(uint32_t),
                                                 .block = block,
                                                 .seed = seed,
                                                 .progress = progress == Py_None ? NULL : tell,
                                                 .user = progress};
    if (Py_TYPE(dataset) != py_dataset_type) {
        PyErr_SetString(PyExc_TypeError, "a data set is needed");
    } else {
        struct leat_dataset *of = py_dataset_handle(dataset);
        PY_WITHOUT_GIL(rc = leat_prompts_group(of, &options, &prompts, &error));
        rc = rc ? rc : leat_prompts_dataset(prompts, &grouped, &error);
        if (!rc)
            result = results(prompts, grouped);
        else if (!PyErr_Occurred())
            py_raise(&error);
        leat_prompts_release(prompts);
    }
    PyBuffer_Release(&decode);
    return result;
}

/* prompts_simulate(kept, tokens, block) -> tokens that a cache has: (as they lie, sorted, grouped). */
PyObject *py_prompts_simulate(PyObject *module, PyObject *args)
{
    PyObject *kept;
    unsigned long long tokens, block;
    struct leat_prompts_saved saved;
    struct leat_error error;
    int rc;
    if (!PyArg_ParseTuple(args, "OKK:prompts_simulate", &kept, &tokens, &block))
        return NULL;
    const struct leat_prompts *prompts = PyCapsule_GetPointer(kept, NAME);
    if (!prompts)
        return NULL;
    PY_WITHOUT_GIL(rc = leat_prompts_simulate(prompts, tokens, block, &saved, &error));
    return rc ? py_raise(&error)
              : Py_BuildValue("KKK", (unsigned long long)saved.lying, (unsigned long long)saved.sorted,
                              (unsigned long long)saved.grouped);
}

/* prompts_records(bytes, csv, quoted, ends) -> (number, quoted); ends: a buffer of as many uint64 as there are bytes.
 */
PyObject *py_prompts_records(PyObject *module, PyObject *args)
{
    Py_buffer bytes, ends;
    int csv, quoted;
    if (!PyArg_ParseTuple(args, "y*ppw*:prompts_records", &bytes, &csv, &quoted, &ends))
        return NULL;
    bool open = quoted;
    PyObject *result = NULL;
    if ((uint64_t)ends.len / sizeof(uint64_t) < (uint64_t)bytes.len) {
        PyErr_SetString(PyExc_ValueError, "prompts_records: ends has room for as many numbers as there are bytes");
    } else {
        uint64_t n;
        PY_WITHOUT_GIL(n = leat_prompts_records(bytes.buf, (uint64_t)bytes.len, csv, &open, ends.buf));
        result = Py_BuildValue("KO", (unsigned long long)n, open ? Py_True : Py_False);
    }
    PyBuffer_Release(&bytes);
    PyBuffer_Release(&ends);
    return result;
}
