/* Tars: headers and indexes, and what happens when memory runs out. Values are compared from Python (test_tar.py). */
#include "../allocations.h"
#include "../files.h"

#include "base/hash.h"
#include "format/source.h"
#include "format/tar_index.h"
#include "format/tar_scan.h"

struct made {
    uint8_t *bytes;
    size_t n;
};

/* Appends a header and a body. `size`: what the header says. */
static void add(struct made *m, const char *name, char type, const void *body, size_t n, uint64_t size)
{
    const size_t padded = (n + 511) / 512 * 512;
    m->bytes = realloc(m->bytes, m->n + 512 + padded);
    uint8_t *b = m->bytes + m->n;
    memset(b, 0, 512 + padded);
    snprintf((char *)b, 100, "%s", name);
    snprintf((char *)b + 124, 12, "%011llo", (unsigned long long)size);
    memset(b + 148, ' ', 8);
    b[156] = (uint8_t)type;
    memcpy(b + 257,
           "ustar\0"
           "00",
           8);
    unsigned sum = 0;
    for (int i = 0; i < 512; i++)
        sum += b[i];
    snprintf((char *)b + 148, 8, "%06o", sum);
    if (n)
        memcpy(b + 512, body, n);
    m->n += 512 + padded;
}

static const char npy_header[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";

static size_t make_npy(uint8_t out[256])
{
    const size_t n = sizeof npy_header - 1;
    const float values[2] = {1.5F, -2.0F};
    memcpy(out, "\x93NUMPY\1\0", 8);
    out[8] = (uint8_t)n;
    out[9] = 0;
    memcpy(out + 10, npy_header, n);
    memcpy(out + 10 + n, values, sizeof values);
    return 10 + n + sizeof values;
}

static struct made sample_tar(void)
{
    struct made m = {0};
    uint8_t npy[256];
    const size_t n = make_npy(npy);
    add(&m, "p/folder/", '5', NULL, 0, 0);
    add(&m, "long", 'L', "p/a.name.of.txt", 16, 16);
    add(&m, "cut", '0', "text", 4, 4);
    add(&m, "p/a.cls", '0', "12\n", 3, 3);
    add(&m, "p/a.npy", '0', npy, n, n);
    add(&m, "p/b.cls", '0', "x", 1, 1);
    add(&m, "p/b.json", '0', "{}", 2, 2);
    add(&m, "p/b.npy", '0', npy, n, n);
    add(&m, "p/b.jpg", '0', "\xff\xd8\xff\xe0", 4, 4);
    return m;
}

struct heard {
    char names[512];
    uint64_t bytes, hash;
};

static int hear_begin(void *user, const struct leat_tar_found *f, uint64_t *wanted, struct leat_error *error)
{
    struct heard *h = user;
    const size_t used = strlen(h->names);
    snprintf(h->names + used, sizeof h->names - used, "%s@%llu ", f->name, (unsigned long long)f->at);
    *wanted = f->size;
    return LEAT_OK;
}

static int hear_body(void *user, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    struct heard *h = user;
    for (size_t i = 0; i < n; i++)
        h->hash = h->hash * 31 + bytes[i];
    h->bytes += n;
    return LEAT_OK;
}

static int hear_end(void *user, struct leat_error *error)
{
    return LEAT_OK;
}

TEST(headers_that_come_in_pieces_of_any_size_are_the_same)
{
    struct made m = sample_tar();
    struct heard first = {0};
    for (size_t piece = m.n; piece; piece = piece > 700 ? 700 : piece > 1 ? piece / 3 : 0) {
        struct heard h = {0};
        const struct leat_tar_sink sink = {hear_begin, hear_body, hear_end, &h, 0, NULL};
        struct leat_tar_scan *s;
        assert_int_equal(leat_tar_scan_begin("x", m.n, &sink, &s, NULL), LEAT_OK);
        for (size_t at = 0; at < m.n; at += piece)
            assert_int_equal(leat_tar_scan_push(s, m.bytes + at, m.n - at < piece ? m.n - at : piece, NULL), LEAT_OK);
        assert_int_equal(leat_tar_scan_end(s, true, NULL), LEAT_OK);
        if (piece == m.n)
            first = h;
        assert_memory_equal(&h, &first, sizeof h);
    }
    assert_non_null(strstr(first.names, "p/a.name.of.txt@2048 "));
    free(m.bytes);
}

TEST(an_index_finds_the_files_of_a_sample)
{
    struct made m = sample_tar();
    struct leat_io_file *file;
    struct leat_compressed made;
    struct leat_tar_index x;
    struct leat_tar_member member;
    bool found;
    assert_int_equal(leat_io_from_memory("x.tar", m.bytes, m.n, &file, NULL), LEAT_OK);
    const struct leat_tar_making making = {.file = file};
    assert_int_equal(leat_tar_index_make(&making, &made, &x, NULL), LEAT_OK);
    assert_int_equal(x.count, 2);
    assert_int_equal(x.n_endings, 5);
    assert_string_equal(x.keys + x.samples[1].key, "p/b");
    assert_string_equal(x.endings_text + x.endings[0].text, "name.of.txt");
    assert_int_equal(leat_tar_index_find(&x, 0, 1, &found, &member, NULL), LEAT_OK);
    assert_true(found && leat_tar_form_of(&member) == LEAT_TAR_INTEGER && member.number == 12);
    assert_int_equal(leat_tar_index_find(&x, 1, 0, &found, &member, NULL), LEAT_OK);
    assert_false(found);
    assert_int_equal(x.n_shapes, 1);
    assert_int_equal(x.shapes[0].n, 2);
    const float values[2] = {1.5F, -2.0F};
    assert_int_equal(leat_tar_index_find(&x, 1, 2, &found, &member, NULL), LEAT_OK);
    assert_int_equal((uint64_t)member.number, leat_hash64(values, sizeof values));
    leat_tar_index_destroy(&x);
    leat_io_release(made.file);
    leat_io_release(file);
    free(m.bytes);
}

TEST(a_kept_index_of_shapes_that_no_field_has_is_refused)
{
    char folder[PATH_MAX], path[PATH_MAX + 16], kept[PATH_MAX + 32];
    struct made m = sample_tar();
    struct leat_io_file *file;
    struct leat_compressed made;
    struct leat_tar_index x, again;
    files_folder(folder);
    files_write(folder, "a.tar", m.bytes, m.n);
    snprintf(path, sizeof path, "%s/a.tar", folder);
    snprintf(kept, sizeof kept, "%s.leat-index", path);
    assert_int_equal(leat_io_open(path, &file, NULL), LEAT_OK);
    assert_int_equal(leat_tar_index_make(&(struct leat_tar_making){.file = file}, &made, &x, NULL), LEAT_OK);
    struct leat_tar_shape *shape = x.own[5], was = *shape;
    for (int i = 0; i < 5; i++) {
        *shape = was;
        shape->ndim = i ? 2 : 1;
        shape->shape[1] = i == 1 ? 0 : i == 2 ? UINT64_MAX / 2 : i == 3 ? INT64_MAX / 8 : 1;
        shape->most = i == 3 ? 4 : i == 4 ? UINT64_MAX : shape->most;
        assert_true(leat_tar_index_save(&x, kept, file));
        const bool loaded = leat_tar_index_load(&again, kept, file, false);
        assert_int_equal(loaded, i == 0);
        if (loaded)
            leat_tar_index_destroy(&again);
    }
    leat_tar_index_destroy(&x);
    leat_io_release(made.file);
    leat_io_release(file);
    files_remove(folder);
    free(m.bytes);
}

/* Opens the tar and reads all of it. */
static int read_all(const char *path, struct leat_error *error)
{
    struct leat_dataset *d;
    struct leat_value value;
    size_t n;
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    const struct leat_field wanted[] = {{.name = "cls"}, {.name = "npy"}, {.name = "json"}, {.name = "jpg"}};
    options.fields = wanted;
    options.n_fields = 4;
    int rc = leat_dataset_open(path, &options, &d, error);
    if (rc)
        return rc;
    leat_dataset_fields(d, &n);
    for (size_t i = 0; i < 2 && !rc; i++)
        for (size_t f = 0; f < n && !rc; f++) {
            rc = leat_dataset_read(d, i, f, &value, error);
            if (!rc)
                leat_value_clear(&value);
            else if (i == 1 && f == 0 && rc == LEAT_E_DECODE)
                rc = LEAT_OK; /* that number is none */
        }
    leat_dataset_release(d);
    return rc;
}

TEST(each_allocation_that_fails_is_an_error)
{
    char folder[PATH_MAX], path[PATH_MAX + 16];
    struct leat_error error;
    struct made m = sample_tar();
    files_folder(folder);
    files_write(folder, "a.tar", m.bytes, m.n);
    snprintf(path, sizeof path, "%s/a.tar", folder);
    assert_int_equal(read_all(path, &error), LEAT_OK);
    for (int kept = 0; kept < 2; kept++)
        for (int64_t n = 0;; n++) {
            char index[PATH_MAX + 32];
            snprintf(index, sizeof index, "%s.leat-index", path);
            if (!kept)
                unlink(index);
            fail_allocation(n);
            const int rc = read_all(path, &error);
            if (!allocation_failed()) {
                assert_int_equal(rc, LEAT_OK);
                break;
            }
            assert_true(rc == LEAT_E_NOMEM || rc == LEAT_OK); /* an index may be made anew, or stay unwritten */
        }
    files_remove(folder);
    free(m.bytes);
}

TEST(sizes_that_lie_are_found_before_anything_is_allocated)
{
    const uint64_t sizes[] = {513, 1 << 20, UINT64_C(077777777777)};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (const char *type = "0LxgQ"; *type; type++) {
            struct made m = {0};
            struct heard h = {0};
            struct leat_error error;
            const struct leat_tar_sink sink = {hear_begin, hear_body, hear_end, &h, 0, NULL};
            struct leat_tar_scan *s;
            add(&m, "a.txt", *type, "", 0, sizes[i]);
            assert_int_equal(leat_tar_scan_begin("x.tar", m.n, &sink, &s, NULL), LEAT_OK);
            assert_int_equal(leat_tar_scan_push(s, m.bytes, m.n, &error), LEAT_E_CORRUPT);
            assert_int_equal(error.offset, 0);
            assert_string_equal(error.file, "x.tar");
            leat_tar_scan_end(s, false, NULL);
            free(m.bytes);
        }
}

TEST(a_hash_of_pieces_is_that_of_the_whole)
{
    uint8_t bytes[3000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7);
    for (size_t n = 0; n < sizeof bytes; n += 97) {
        struct leat_hash_pieces hash;
        leat_hash_begin(&hash);
        for (size_t at = 0; at < n; at += 100)
            leat_hash_add(&hash, bytes + at, n - at < 100 ? n - at : 100);
        assert_int_equal(leat_hash_end(&hash), leat_hash64(bytes, n));
    }
}

TEST_MAIN()
