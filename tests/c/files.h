/* Folders and files that a test makes and removes. */
#ifndef LEAT_TESTS_FILES_H
#define LEAT_TESTS_FILES_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

static int files_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

static inline void files_remove(const char *path)
{
    nftw(path, files_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A new folder under TMPDIR or /tmp; its path is written to `path` (PATH_MAX bytes). */
static inline void files_folder(char *path)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, PATH_MAX, "%s/leat-test-XXXXXX", base && *base ? base : "/tmp");
    assert_non_null(mkdtemp(path));
}

/* Writes folder/name, making the folders on the way. */
static inline void files_write(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[PATH_MAX + 256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *p = path + strlen(folder) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        assert_true(mkdir(path, 0777) == 0 || errno == EEXIST);
        *p = '/';
    }
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), bytes);
    close(fd);
}

static inline void files_write_text(const char *folder, const char *name, const char *text)
{
    files_write(folder, name, text, strlen(text));
}

#endif
