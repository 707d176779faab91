#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../faulty.h"
#include "../folder.h"
#include "io/file.h"
#include "io/guard.h"

enum { PAGE = 65536, PAGES = 8 }; /* whole pages on every machine */

static char path[PATH_MAX + 16];

static int set_up(void **state)
{
    files_folder(folder);
    snprintf(path, sizeof path, "%s/pages", folder);
    return 0;
}

/* A mapped file of eight pages that was cut to four. */
static struct leat_io_file *cut_file(const uint8_t **map)
{
    static uint8_t zeros[PAGE * PAGES];
    struct leat_error error;
    struct leat_io_file *file;
    files_write(folder, "pages", zeros, sizeof zeros);
    assert_ok(leat_io_open(path, &file, &error));
    *map = leat_io_map(file, &error);
    assert_non_null(*map);
    assert_int_equal(truncate(path, PAGE * 4), 0);
    return file;
}

static int touch(void *arg)
{
    return *(volatile const uint8_t *)arg ? 1 : 2;
}

struct nested {
    const uint8_t *inside, *outside;
    int inner;
};

static int touch_nested(void *arg)
{
    struct nested *n = arg;
    n->inner = leat_guarded(touch, (void *)(uintptr_t)n->inside, NULL);
    return touch((void *)(uintptr_t)n->outside);
}

TEST(a_cut_mapping_is_an_error_with_its_byte)
{
    struct leat_error error;
    const uint8_t *map;
    struct leat_io_file *file = cut_file(&map);
    assert_int_equal(leat_guarded(touch, (void *)(uintptr_t)(map + PAGE), &error), 2);
    for (int i = 0; i < 3; i++) { /* again: the signal is not left blocked */
        assert_int_equal(leat_guarded(touch, (void *)(uintptr_t)(map + PAGE * 5 + 123), &error), LEAT_E_IO);
        assert_string_equal(error.file, path);
        assert_int_equal(error.offset, PAGE * 5 + 123);
    }
    leat_io_release(file);
}

TEST(only_the_innermost_guard_is_abandoned)
{
    const uint8_t *map;
    struct leat_io_file *file = cut_file(&map);
    struct nested n = {map + PAGE * 6, map, 0};
    assert_int_equal(leat_guarded(touch_nested, &n, NULL), 2);
    assert_int_equal(n.inner, LEAT_E_IO);
    n = (struct nested){map + PAGE * 6, map + PAGE * 6, 0};
    assert_int_equal(leat_guarded(touch_nested, &n, NULL), LEAT_E_IO);
    assert_int_equal(n.inner, LEAT_E_IO);
    leat_io_release(file);
}

static void *guard_in_a_thread(void *arg)
{
    for (int i = 0; i < 200; i++)
        if (leat_guarded(touch, arg, NULL) != LEAT_E_IO)
            return arg;
    return NULL;
}

TEST(threads_are_guarded_while_others_map_and_unmap)
{
    enum { THREADS = 4 };
    const uint8_t *map;
    struct leat_io_file *file = cut_file(&map);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, guard_in_a_thread, (void *)(uintptr_t)(map + PAGE * 7)), 0);
    for (int i = 0; i < 200; i++) {
        static const uint8_t elsewhere[PAGE];
        assert_int_equal(leat_guard_add(elsewhere, PAGE, "elsewhere"), LEAT_OK);
        leat_guard_remove(elsewhere, PAGE);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    leat_io_release(file);
}

TEST(more_ranges_than_a_block_holds_are_found)
{
    static const uint8_t many[1000][8];
    const uint8_t *map;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(leat_guard_add(many[i], 8, "many"), LEAT_OK);
    struct leat_io_file *file = cut_file(&map);
    assert_int_equal(leat_guarded(touch, (void *)(uintptr_t)(map + PAGE * 5), NULL), LEAT_E_IO);
    leat_io_release(file);
    for (int i = 0; i < 1000; i++)
        leat_guard_remove(many[i], 8);
}

TEST(a_forked_child_is_guarded_too)
{
    const uint8_t *map;
    struct leat_io_file *file = cut_file(&map);
    pid_t child = fork();
    if (child == 0)
        _exit(leat_guarded(touch, (void *)(uintptr_t)(map + PAGE * 5), NULL) == LEAT_E_IO ? 7 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    leat_io_release(file);
}

/* Stands in for a handler that a program installed before leat mapped a file. */
static sigjmp_buf foreign;
static void on_foreign_fault(int number)
{
    siglongjmp(foreign, 1);
}

TEST(a_fault_of_somebody_else_reaches_the_handler_before_ours)
{
    int fd = memfd_create("foreign", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, PAGE), 0);
    uint8_t *other = mmap(NULL, PAGE * 2, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(other != MAP_FAILED);
    const uint8_t *map;
    signal(SIGBUS, on_foreign_fault);
    struct leat_io_file *file = cut_file(&map);
    assert_int_equal(leat_guarded(touch, (void *)(uintptr_t)(map + PAGE * 5), NULL), LEAT_E_IO);
    int reached = sigsetjmp(foreign, 1);
    if (!reached)
        touch(other + PAGE);
    assert_int_equal(reached, 1);
    leat_io_release(file);
    munmap(other, PAGE * 2);
    close(fd);
}

TEST(the_faulty_backend_cuts_mappings_for_real)
{
    struct leat_error error;
    const uint8_t *map;
    leat_io_release(cut_file(&map)); /* a file of four pages */
    leat_faulty_start(&(struct leat_faulty){.cut = true, .cut_at = PAGE});
    struct leat_io_file *file;
    assert_ok(leat_io_open(path, &file, &error));
    assert_int_equal(file->size, PAGE * 4);
    map = leat_io_map(file, &error);
    assert_non_null(map);
    assert_int_equal(leat_guarded(touch, (void *)(uintptr_t)map, &error), 2);
    assert_int_equal(leat_guarded(touch, (void *)(uintptr_t)(map + PAGE), &error), LEAT_E_IO);
    assert_int_equal(error.offset, PAGE);
    uint8_t byte;
    assert_int_equal(leat_io_read(file, PAGE, 1, &byte, &error), LEAT_E_CORRUPT);
    leat_io_release(file);
    leat_faulty_stop();
}

TEST_MAIN_IN(set_up, remove_folder)
