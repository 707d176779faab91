/* A file that tests read, in a folder of its own. */
#ifndef LEAT_TESTS_IO_SUPPORT_H
#define LEAT_TESTS_IO_SUPPORT_H

#include "../faulty.h"
#include "../folder.h"
#include "base/error.h"

static char path[PATH_MAX + 16];
static uint8_t content[100000];

static int set_up(void **state)
{
    files_folder(folder);
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (uint8_t)(i * 7 + i / 256);
    files_write(folder, "data", content, sizeof content);
    snprintf(path, sizeof path, "%s/data", folder);
    return 0;
}

#endif
