/* How a folder of annotations is recognised. */
#include <dirent.h>

#include "../files.h"
#include "../test.h"
#include "format/sidecars.h"

/* These stand before those of the C library (--wrap), which glibc calls so where files have 64 bits. */
#ifdef __USE_FILE_OFFSET64
#define __wrap_stat __wrap_stat64
#define __real_stat __real_stat64
#define __wrap_readdir __wrap_readdir64
#define __real_readdir __real_readdir64
#endif
int __wrap_stat(const char *path, struct stat *st);
int __real_stat(const char *path, struct stat *st);
DIR *__wrap_opendir(const char *path);
DIR *__real_opendir(const char *path);
struct dirent *__wrap_readdir(DIR *dir);
struct dirent *__real_readdir(DIR *dir);

static unsigned asked, opened;
static bool untyped; /* a file system that says of no entry what it is */

int __wrap_stat(const char *path, struct stat *st)
{
    asked++;
    return __real_stat(path, st);
}

DIR *__wrap_opendir(const char *path)
{
    opened++;
    return __real_opendir(path);
}

struct dirent *__wrap_readdir(DIR *dir)
{
    struct dirent *e = __real_readdir(dir);
    if (e && untyped)
        e->d_type = DT_UNKNOWN;
    return e;
}

enum { FILES = 40 };

static void make_labels(char folder[PATH_MAX])
{
    char name[32];
    files_folder(folder);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "%d.txt", i);
        files_write_text(folder, name, "0 .5 .5 1 1\n");
    }
}

TEST(files_are_not_asked_what_they_are)
{
    char folder[PATH_MAX];
    make_labels(folder);
    untyped = false;
    asked = opened = 0;
    assert_int_equal(leat_sidecars_in(folder, ".xml", NULL), LEAT_SIDECARS_NONE);
    assert_int_equal(asked, 0);
    assert_int_equal(opened, 2);
    files_remove(folder);
}

TEST(folders_and_links_to_them_are_looked_into_on_any_file_system)
{
    for (int round = 0; round < 4; round++) {
        char folder[PATH_MAX], link[PATH_MAX + 8], other[PATH_MAX];
        make_labels(folder);
        files_folder(other);
        untyped = round & 1;
        asked = opened = 0;
        if (round < 2) {
            files_write_text(folder, "sub/a.xml", "<annotation/>");
        } else {
            snprintf(link, sizeof link, "%s/sub", folder);
            files_write_text(other, "a.xml", "<annotation/>");
            assert_int_equal(symlink(other, link), 0);
        }
        assert_int_equal(leat_sidecars_in(folder, ".xml", NULL), LEAT_SIDECARS_NAMED);
        assert_int_equal(opened, 3); /* no file was opened as a folder */
        if (untyped)
            assert_true(asked);
        else
            assert_true(asked <= 1); /* the link */
        files_remove(folder);
        files_remove(other);
    }
}

TEST_MAIN()
