/* Files of arrays: what happens when memory runs out, or reading fails. Values are compared from Python
 * (test_array_files.py). */
#include "../allocations.h"
#include "../faulty.h"
#include "../files.h"

#include "base/bytes.h"
#include "format/archive.h"
#include "format/source.h"

struct made {
    uint8_t bytes[8192];
    size_t n;
};

static void add(struct made *m, const void *bytes, size_t n)
{
    assert_true(m->n + n <= sizeof m->bytes);
    if (n)
        memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

static void add_numbers(struct made *m, size_t n, const uint64_t *numbers, const char *widths)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t b[8];
        leat_put_u64(b, numbers[i]);
        add(m, b, (size_t)(widths[i] - '0'));
    }
}

enum { ROWS = 3, WIDTH = 2 };
static const float values[ROWS * WIDTH] = {1, 2, 3, 4, 5, 6};

static struct made make_npy(const char *order)
{
    static const char format[] = "{'descr': '<f4', 'fortran_order': %s, 'shape': (3, 2), }\n";
    struct made m = {0};
    char text[128];
    const size_t n = (size_t)snprintf(text, sizeof text, format, order);
    add(&m, "\x93NUMPY\1\0", 8);
    add_numbers(&m, 1, (const uint64_t[]){n}, "2");
    add(&m, text, n);
    add(&m, values, sizeof values);
    return m;
}

static uint32_t crc_of(const uint8_t *p, size_t n)
{
    uint32_t crc = UINT32_MAX;
    while (n--) {
        crc ^= *p++;
        for (int k = 0; k < 8; k++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
    return ~crc;
}

/* Three arrays, of which the second is deflated (as a block of bytes that are stored) and the third in the order of
 * Fortran. */
static struct made make_npz(void)
{
    struct made m = {0}, directory = {0};
    for (int i = 0; i < 3; i++) {
        const struct made npy = make_npy(i == 2 ? "True" : "False");
        const uint8_t block[] = {1, (uint8_t)npy.n, (uint8_t)(npy.n >> 8), (uint8_t)~npy.n, (uint8_t)(~npy.n >> 8)};
        const uint64_t method = i == 1 ? 8 : 0, bytes = npy.n + (i == 1 ? sizeof block : 0), at = m.n,
                       crc = crc_of(npy.bytes, npy.n);
        const char name[] = {(char)('a' + i), '.', 'n', 'p', 'y'};
        add(&m, "PK\3\4", 4);
        add_numbers(&m, 10, (const uint64_t[]){20, 0, method, 0, 0, crc, bytes, npy.n, sizeof name, 0}, "2222244422");
        add(&m, name, sizeof name);
        add(&m, block, i == 1 ? sizeof block : 0);
        add(&m, npy.bytes, npy.n);
        add(&directory, "PK\1\2", 4);
        add_numbers(&directory, 11, (const uint64_t[]){20, 20, 0, method, 0, 0, crc, bytes, npy.n, sizeof name, 0},
                    "22222244422");
        add_numbers(&directory, 5, (const uint64_t[]){0, 0, 0, 0, at}, "22244");
        add(&directory, name, sizeof name);
    }
    const uint64_t at = m.n;
    add(&m, directory.bytes, directory.n);
    add(&m, "PK\5\6", 4);
    add_numbers(&m, 7, (const uint64_t[]){0, 0, 3, 3, directory.n, at, 0}, "2222442");
    return m;
}

static struct made make_safetensors(void)
{
    static const char text[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"
                               "\"b\":{\"dtype\":\"I64\",\"shape\":[3],\"data_offsets\":[24,48]}}";
    struct made m = {0};
    add_numbers(&m, 1, (const uint64_t[]){sizeof text - 1}, "8");
    add(&m, text, sizeof text - 1);
    add(&m, values, sizeof values);
    add(&m, values, sizeof values);
    return m;
}

/* Opens a file, with sums kept in `index_dir` unless it is NULL, and reads all of it. */
static int read_all(const char *path, const char *index_dir, struct leat_error *error)
{
    struct leat_dataset *d;
    struct leat_value value;
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    size_t n;
    options.index_dir = index_dir;
    int rc = leat_dataset_open(path, &options, &d, error);
    if (rc)
        return rc;
    leat_dataset_fields(d, &n);
    for (size_t i = 0; i < ROWS && !rc; i++)
        for (size_t f = 0; f < n && !rc; f++) {
            rc = leat_dataset_read(d, i, f, &value, error);
            if (rc)
                break;
            if (f == 0)
                assert_memory_equal(value.data, values + i * WIDTH, sizeof(float) * WIDTH);
            if (f == 2) {
                const float turned[] = {values[i], values[i + ROWS]};
                assert_memory_equal(value.data, turned, sizeof turned);
            }
            leat_value_clear(&value);
        }
    leat_dataset_release(d);
    return rc;
}

static const char *const names[] = {"a.npy", "a.npz", "a.safetensors"};

static void write_all(char folder[PATH_MAX])
{
    const struct made made[] = {make_npy("False"), make_npz(), make_safetensors()};
    files_folder(folder);
    for (int k = 0; k < 3; k++)
        files_write(folder, names[k], made[k].bytes, made[k].n);
}

/* Nothing is kept; it is to be kept; it was. */
enum { NOT, ANEW, KEPT, WAYS };
static const char *index_of(int way, const char *folder, char room[PATH_MAX + 32])
{
    snprintf(room, PATH_MAX + 32, "%s/kept", folder);
    if (way == ANEW)
        files_remove(room);
    return way == NOT ? NULL : room;
}

TEST(each_allocation_that_fails_is_an_error)
{
    char folder[PATH_MAX], path[PATH_MAX + 32], index[PATH_MAX + 32];
    struct leat_error error;
    write_all(folder);
    for (int k = 0; k < 3 * WAYS; k++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[k / WAYS]);
        assert_int_equal(read_all(path, index_of(k % WAYS, folder, index), &error), LEAT_OK);
        for (int64_t n = 0;; n++) {
            const char *dir = index_of(k % WAYS, folder, index);
            fail_allocation(n);
            const int rc = read_all(path, dir, &error);
            if (!allocation_failed()) {
                assert_int_equal(rc, LEAT_OK);
                break;
            }
            assert_true(rc == LEAT_E_NOMEM || rc == LEAT_OK); /* values are right even so */
        }
    }
    files_remove(folder);
}

TEST(each_read_that_fails_is_an_error_and_what_cannot_be_mapped_is_read)
{
    char folder[PATH_MAX], path[PATH_MAX + 32], index[PATH_MAX + 32];
    struct leat_error error;
    write_all(folder);
    for (int k = 0; k < 3 * WAYS; k++)
        for (int unmapped = 0; unmapped < 2; unmapped++)
            for (uint64_t n = 1;; n++) {
                const char *name = names[k / WAYS], *dir = index_of(k % WAYS, folder, index);
                snprintf(path, sizeof path, "%s/%s", folder, name);
                leat_faulty_start(&(struct leat_faulty){.only = name, .fail_read = n, .unmapped = unmapped});
                const int rc = read_all(path, dir, &error);
                if (leat_faulty_stop().reads < n) {
                    assert_int_equal(rc, LEAT_OK);
                    break;
                }
                assert_true(rc == LEAT_E_IO || rc == LEAT_OK); /* a head that is read again, to recognise it */
            }
    files_remove(folder);
}

static int stop_at_once(void *user, uint64_t done, uint64_t total)
{
    uint64_t *told = user;
    told[0]++;
    told[1] = total;
    return done > 0 && told[2];
}

TEST(a_long_pass_tells_how_far_it_is_and_can_be_stopped)
{
    static const char format[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (%d, %d), }\n";
    char folder[PATH_MAX], path[PATH_MAX + 32], text[128];
    const size_t values_bytes = 40 << 20;
    uint8_t *bytes = calloc(1, values_bytes + 256);
    files_folder(folder);
    for (int is_long = 0; is_long < 2; is_long++) {
        struct leat_dataset *d;
        struct leat_error error;
        uint64_t told[3] = {0, 0, 0};
        const int rows = is_long ? 2 : 1 << 10;
        const size_t n = (size_t)snprintf(text, sizeof text, format, rows, (40 << 20) / rows);
        const uint8_t header[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)n, 0};
        memcpy(bytes, header, sizeof header);
        memcpy(bytes + sizeof header, text, n);
        files_write(folder, "long.npy", bytes, sizeof header + n + values_bytes);
        snprintf(path, sizeof path, "%s/long.npy", folder);
        struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
        options.progress = stop_at_once;
        options.user = told;
        told[2] = 1;
        assert_int_equal(leat_dataset_open(path, &options, &d, &error), LEAT_E_CANCELLED);
        assert_int_equal(told[0], 1);
        told[2] = 0;
        assert_int_equal(leat_dataset_open(path, &options, &d, &error), LEAT_OK);
        assert_int_equal(told[0], 3); /* once each 16 MiB */
        assert_int_equal(told[1], values_bytes);
        leat_dataset_release(d);
        assert_int_equal(leat_dataset_open(path, &options, &d, &error), LEAT_OK);
        assert_int_equal(told[0], 3); /* the sums are kept */
        leat_dataset_release(d);
    }
    free(bytes);
    files_remove(folder);
}

TEST(a_mapping_that_fails_is_an_error)
{
    char folder[PATH_MAX], path[PATH_MAX + 32];
    struct leat_error error;
    write_all(folder);
    snprintf(path, sizeof path, "%s/a.npy", folder);
    leat_faulty_start(&(struct leat_faulty){.fail_map = 1});
    assert_int_equal(read_all(path, NULL, &error), LEAT_E_IO);
    leat_faulty_stop();
    files_remove(folder);
}

TEST(a_member_is_checked)
{
    struct made m = make_npz();
    for (size_t at = 0; at < m.n; at++) {
        struct leat_io_file *file, *member;
        struct leat_archive z;
        uint64_t begin;
        m.bytes[at] ^= 0x21;
        assert_int_equal(leat_io_from_memory("a.npz", m.bytes, m.n, &file, NULL), LEAT_OK);
        if (!leat_archive_read(file, &z, NULL)) {
            for (size_t i = 0; i < z.n; i++) {
                const struct made npy = make_npy(i == 2 ? "True" : "False");
                uint8_t bytes[512];
                if (leat_archive_open(file, &z, &z.members[i], NULL, NULL, &member, &begin, NULL))
                    continue;
                if (leat_archive_check(file, &z, &z.members[i], NULL)) {
                    assert_false(z.members[i].deflated); /* of which opening compares it */
                    leat_io_release(member);
                    continue;
                }
                assert_int_equal(z.members[i].size, npy.n);
                assert_int_equal(leat_io_read(member, begin, npy.n, bytes, NULL), LEAT_OK);
                assert_memory_equal(bytes, npy.bytes, npy.n);
                leat_io_release(member);
            }
            leat_archive_destroy(&z);
        }
        leat_io_release(file);
        m.bytes[at] ^= 0x21;
    }
}

TEST_MAIN()
