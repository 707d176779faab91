/*
 * A main for a fuzz target without a fuzzer: any compiler builds it, in the build of the tests in C.
 *
 *     fuzz_NAME [FOLDER]
 *
 * It runs the target on no bytes, on each file of the folder (its corpus, if it has one), and on changed copies of each
 * file: cut, or with some bytes replaced. A change follows from the number of its copy alone, so that each run is the
 * same. If the process dies, its last line names the file and copy; the same command repeats it. The fuzzer looks for
 * more (CONTRIBUTING.md).
 */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"

#define CHANGES 200
/* A file above this size is changed a few times only, because each copy of it takes long. */
#define LARGE_BYTES 20000
#define LARGE_CHANGES 20

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static char now[512] = "# on no bytes\n";

static void say_now(void)
{
    (void)!write(STDOUT_FILENO, now, strlen(now));
}

static void dies(int number)
{
    say_now();
    signal(number, SIG_DFL);
    raise(number);
}

/* The target gets a copy of exactly that length, so that a sanitizer sees a read behind it. */
static void run(const uint8_t *data, size_t length)
{
    uint8_t *copy = malloc(length ? length : 1);
    if (!copy)
        exit(2);
    if (length)
        memcpy(copy, data, length);
    LLVMFuzzerTestOneInput(copy, length);
    free(copy);
}

/* Every third copy is cut; the others have one to four bytes replaced. */
static void run_changed(uint8_t *data, size_t length, uint64_t key, uint64_t number)
{
    if (number % 3 == 0) {
        run(data, (size_t)leat_draw_below(key, 0, length));
        return;
    }
    size_t at[4];
    uint8_t before[4];
    size_t n = 1 + (size_t)leat_draw_below(key, 1, 4);
    for (size_t i = 0; i < n; i++) {
        at[i] = (size_t)leat_draw_below(key, 2 + 2 * i, length);
        before[i] = data[at[i]];
        data[at[i]] = (uint8_t)leat_draw_u64(key, 3 + 2 * i);
    }
    run(data, length);
    while (n--)
        data[at[n]] = before[n];
}

static void run_file(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        exit(2);
    size_t length = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(length ? length : 1);
    if (!data || fread(data, 1, length, file) != length)
        exit(2);
    fclose(file);
    snprintf(now, sizeof now, "# on %.400s\n", name);
    run(data, length);
    uint64_t n_changes = !length ? 0 : length > LARGE_BYTES ? LARGE_CHANGES : CHANGES;
    for (uint64_t i = 0; i < n_changes; i++) {
        snprintf(now, sizeof now, "# on %.400s, copy %d\n", name, (int)i);
        run_changed(data, length, leat_key_mix(length, i), i);
    }
    free(data);
}

static int is_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(say_now);
    const int deadly[] = {SIGILL, SIGTRAP, SIGABRT};
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        signal(deadly[i], dies);
    printf("1..1\n");
    fflush(stdout);
    run(NULL, 0);
    int n = 0;
    if (argc > 1) {
        struct dirent **files;
        n = scandir(argv[1], &files, is_file, alphasort);
        if (n < 0)
            return 2;
        for (int i = 0; i < n; i++) {
            run_file(argv[1], files[i]->d_name);
            free(files[i]);
        }
        free(files);
    }
    printf("ok 1 - %d files and their changed copies\n", n);
    return 0;
}
