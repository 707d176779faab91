/* A folder of a test's own, and the functions by which cmocka makes it and removes it. */
#ifndef LEAT_TESTS_FOLDER_H
#define LEAT_TESTS_FOLDER_H

#include "files.h"

static char folder[PATH_MAX];

static inline int make_folder(void **state)
{
    files_folder(folder);
    return 0;
}

static inline int remove_folder(void **state)
{
    files_remove(folder);
    return 0;
}

#endif
