/* The command and a kind of samples that is no image: signals_kind.c is linked to it. argv[1] is that command. */
#include "../files.h"
#include "../signals.h"

#include <sys/wait.h>

enum { SAMPLES = 4 };
static const char *command_path;
static char folder[PATH_MAX], original[PATH_MAX + 32], raw[PATH_MAX + 32], out[PATH_MAX + 32];

/* SAMPLES signals, and the number of each. */
static void write_signals(const char *path, enum leat_photos form)
{
    static uint8_t bytes[SIGNAL_BYTES];
    const struct leat_field fields[] = {signal_field, {.name = "n", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64}};
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_writer *writer;
    struct leat_error error;
    options.photos = form;
    assert_ok(leat_writer_open(path, fields, 2, &options, &writer, &error));
    for (int64_t i = 0; i < SAMPLES; i++) {
        const struct leat_value_ref values[] = {{bytes, signal_make((uint64_t)i, false, bytes), NULL},
                                                {&i, sizeof i, NULL}};
        assert_ok(leat_writer_add(writer, values, NULL, &error));
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
}

static int setup(void **state)
{
    signal_kind(state);
    files_folder(folder);
    snprintf(original, sizeof original, "%.4000s/original.leat", folder);
    snprintf(raw, sizeof raw, "%.4000s/raw.leat", folder);
    snprintf(out, sizeof out, "%.4000s/out", folder);
    write_signals(original, LEAT_PHOTOS_ORIGINAL);
    write_signals(raw, LEAT_PHOTOS_RAW);
    return 0;
}

static int teardown(void **state)
{
    files_remove(folder);
    return 0;
}

/* Runs the command with words behind it; all that it printed, and its exit code. The text stays until the next run. */
static int run(const char *words, const char *path, const char *more, const char **printed)
{
    static char text[1 << 20];
    char line[3 * PATH_MAX];
    snprintf(line, sizeof line, "'%s' %s '%s' %s 2>&1", command_path, words, path, more);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    text[fread(text, 1, sizeof text - 1, pipe)] = 0;
    const int status = pclose(pipe);
    *printed = text;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What `leat cat` writes of the signal of sample i to a file. */
static const uint8_t *cat(const char *path, uint64_t i, const char *options, size_t *length)
{
    static uint8_t bytes[1 << 20];
    char more[PATH_MAX + 128];
    const char *printed;
    snprintf(more, sizeof more, "--field x --id %" PRIu64 " %s --out '%s'", i, options, out);
    if (run("cat", path, more, &printed))
        fail_msg("%s", printed);
    FILE *file = fopen(out, "rb");
    assert_non_null(file);
    *length = fread(bytes, 1, sizeof bytes - 1, file);
    bytes[*length] = 0;
    fclose(file);
    return bytes;
}

TEST(cat_gives_the_bytes_that_came)
{
    static uint8_t bytes[SIGNAL_BYTES];
    static const char *const options[] = {"", "--raw"};
    for (uint64_t i = 0; i < SAMPLES; i++)
        for (size_t o = 0; o < 2; o++) {
            size_t length;
            const uint8_t *got = cat(original, i, options[o], &length);
            assert_int_equal(length, signal_make(i, false, bytes));
            assert_memory_equal(got, bytes, length);
        }
}

TEST(cat_gives_a_decoded_value_as_an_array)
{
    static float values[SIGNAL_MOST];
    for (uint64_t i = 0; i < SAMPLES; i++) {
        size_t length;
        const uint32_t steps = signal_steps(i);
        const char *at = (const char *)cat(raw, i, "", &length);
        signal_values(i, values, steps);
        for (uint32_t k = 0; k < steps; k++) {
            char *end;
            assert_true(*at == (k ? ',' : '['));
            assert_true(strtof(at + 1, &end) == values[k]);
            at = end;
        }
        assert_string_equal(at, steps ? "]\n" : "[]\n");
        const uint8_t *got = cat(raw, i, "--raw", &length);
        assert_int_equal(length, steps * sizeof *values);
        assert_memory_equal(got, values, length);
    }
}

TEST(cat_gives_no_more_than_one_value_without_borders)
{
    const char *printed;
    assert_int_equal(run("cat", raw, "--field x --where 'n < 3'", &printed), 2);
    assert_non_null(strstr(printed, "bytes without borders"));
    assert_int_equal(run("cat", raw, "--field x --where 'n = 3'", &printed), 0);
    assert_memory_equal(printed, "[", 1);
}

TEST(info_says_the_kind_and_the_form)
{
    const char *printed;
    assert_int_equal(run("info", original, "", &printed), 0);
    assert_non_null(strstr(printed, "signal"));
    assert_non_null(strstr(printed, "x.steps"));
    assert_null(strstr(printed, "decoded"));
    assert_int_equal(run("info", raw, "", &printed), 0);
    assert_non_null(strstr(printed, "encoded        4 raw (decoded), "));
    assert_null(strstr(printed, "photo"));
    assert_null(strstr(printed, "pixel"));
    assert_int_equal(run("info", raw, "--json", &printed), 0);
    assert_non_null(strstr(printed, "\"kind\": \"signal\""));
}

/* Changes a byte of a signal, or changes it back. */
static void damage(const char *path)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 8192, SEEK_SET);
    const int was = fgetc(file);
    fseek(file, -1, SEEK_CUR);
    fputc(was ^ 1, file);
    fclose(file);
}

TEST(verify_finds_damage_and_speaks_of_no_photo)
{
    const char *printed, *const paths[] = {original, raw};
    for (size_t p = 0; p < 2; p++) {
        assert_int_equal(run("verify", paths[p], "", &printed), 0);
        damage(paths[p]);
        assert_int_equal(run("verify", paths[p], "", &printed), 1);
        assert_non_null(strstr(printed, "the value fails its checksum"));
        assert_null(strstr(printed, "photo"));
        damage(paths[p]);
        assert_int_equal(run("verify", paths[p], "", &printed), 0);
    }
}

TEST(pack_refuses_what_is_decoded)
{
    const char *printed;
    char more[PATH_MAX + 64];
    snprintf(more, sizeof more, "'%s.leat' --quiet", out);
    assert_int_equal(run("pack", raw, more, &printed), 2);
    assert_non_null(strstr(printed, "holds decoded values"));
    assert_int_equal(run("pack", original, more, &printed), 0);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    command_path = argv[1];
    return test_run(setup, teardown);
}
