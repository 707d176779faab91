/* Names: of files by the one rule of format/names.h, for tables that name photos; patterns; what a wrong name means. */
#include "format/names.h"

#include <string.h>

#include "io/paths.h"
#include "leat_py.h"

static const char kind[] = "leat.names";

static void names_free(PyObject *capsule)
{
    struct leat_names *names = PyCapsule_GetPointer(capsule, kind);
    leat_names_destroy(names);
    PyMem_Free(names);
}

/* names(list of bytes): a set of names */
PyObject *py_names(PyObject *module, PyObject *list)
{
    struct leat_names *names = PyMem_Calloc(1, sizeof *names);
    PyObject *capsule = names ? PyCapsule_New(names, kind, names_free) : PyErr_NoMemory();
    if (!capsule)
        PyMem_Free(names);
    for (Py_ssize_t i = 0; capsule && i < PyList_Size(list); i++) {
        const char *name = PyBytes_AsString(PyList_GetItem(list, i));
        if (name && leat_names_add(names, name))
            continue;
        if (name)
            PyErr_NoMemory();
        Py_CLEAR(capsule);
    }
    return capsule;
}

/* find_name(names, name): (the one that is meant or None, the note on one in another form) */
PyObject *py_find_name(PyObject *module, PyObject *args)
{
    PyObject *capsule;
    const char *name;
    char forms[2048] = "";
    size_t number;
    if (!PyArg_ParseTuple(args, "Oy:find_name", &capsule, &name))
        return NULL;
    struct leat_names *names = PyCapsule_GetPointer(capsule, kind);
    if (!names)
        return NULL;
    const enum leat_names_found found = leat_names_find(names, name, &number);
    if (found == LEAT_NAMES_OTHER_FORM)
        leat_names_say_forms(name, leat_names_at(names, number), false, forms, sizeof forms);
    return Py_BuildValue("ys", found == LEAT_NAMES_FOUND ? leat_names_at(names, number) : NULL, forms);
}

/* "" for what is no text in UTF-8: it is near to nothing. */
static const char *utf8_or_none(PyObject *text)
{
    const char *bytes = PyUnicode_AsUTF8AndSize(text, NULL);
    PyErr_Clear();
    return bytes ? bytes : "";
}

/* nearest(word, names): leat_nearest */
PyObject *py_nearest(PyObject *module, PyObject *args)
{
    PyObject *word, *list;
    if (!PyArg_ParseTuple(args, "OO!:nearest", &word, &PyList_Type, &list))
        return NULL;
    const Py_ssize_t n = PyList_Size(list);
    const char **names = PyMem_Calloc((size_t)n + 1, sizeof *names);
    if (!names)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++)
        names[i] = utf8_or_none(PyList_GetItem(list, i));
    PyObject *near = Py_BuildValue("z", leat_nearest(utf8_or_none(word), names, (size_t)n));
    PyMem_Free(names);
    return near;
}

/* paths(list of bytes): leat_paths_expand */
PyObject *py_paths(PyObject *module, PyObject *given)
{
    struct leat_error error;
    char **paths = NULL;
    size_t n_paths = 0;
    const Py_ssize_t n = PyList_Size(given);
    const char **names = n < 0 ? NULL : PyMem_Calloc((size_t)n + 1, sizeof *names);
    if (!names)
        return n < 0 ? NULL : PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++)
        if (PyBytes_AsStringAndSize(PyList_GetItem(given, i), (char **)&names[i], NULL)) {
            PyMem_Free(names);
            return NULL;
        }
    int rc;
    Py_BEGIN_ALLOW_THREADS; /* nobody else has the list */
    rc = leat_paths_expand(names, (size_t)n, &paths, &n_paths, &error);
    Py_END_ALLOW_THREADS;
    PyMem_Free(names);
    if (rc)
        return py_raise(&error);
    PyObject *list = PyList_New((Py_ssize_t)n_paths);
    for (size_t i = 0; list && i < n_paths; i++) {
        PyObject *path = PyUnicode_DecodeFSDefault(paths[i]);
        if (!path || PyList_SetItem(list, (Py_ssize_t)i, path))
            Py_CLEAR(list);
    }
    leat_free(paths);
    return list;
}

/* path_is_ours(bytes): leat_path_is_ours */
PyObject *py_path_is_ours(PyObject *module, PyObject *path)
{
    const char *name = PyBytes_AsString(path);
    return name ? PyBool_FromLong(leat_path_is_ours(name)) : NULL;
}

/* look(bytes): raises if there is nothing, or a pointer of Git LFS; leat_path_look */
PyObject *py_look(PyObject *module, PyObject *path)
{
    struct leat_error error;
    uint8_t head[64];
    size_t n;
    bool folder;
    int rc = LEAT_OK;
    const char *name = PyBytes_AsString(path);
    if (!name)
        return NULL;
    PY_WITHOUT_GIL(rc = leat_path_look(name, &folder, head, sizeof head, &n, &error));
    return py_none_or_raise(rc, &error);
}
