/* Arrays in files, whole and in chunks, against the same array in memory; and tables of chunks that are wrong. */
#include <fcntl.h>
#include <libdeflate.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../folder.h"
#include "base/bytes.h"
#include "base/random.h"
#include "format/chunked.h"

enum { ELEMENTS = 4000, CHUNKS = 600, FILES = 40, TEXT = 1 << 19 };

/* An array, and all that describes it. */
static struct made {
    struct leat_stored_array a;
    uint64_t elements;
    uint32_t plain[ELEMENTS];
    struct leat_stored_chunk chunks[CHUNKS];
    char paths[FILES][PATH_MAX + 16];
    const char *names[FILES];
    uint64_t sizes[FILES];
    int64_t times[FILES];
    uint8_t text[FILES][TEXT / FILES];
} m;

/* The element of a chunk at `at` in it, whose place in the grid is `place`; NULL: it lies beyond the array. */
static const uint32_t *element(const uint64_t *place, const uint64_t *at)
{
    uint64_t k = 0;
    for (unsigned d = 0; d < m.a.ndim; d++) {
        const uint64_t i = place[d] * m.a.chunk[d] + at[d];
        if (i >= m.a.shape[d])
            return NULL;
        k = k * m.a.shape[d] + i;
    }
    return &m.plain[k];
}

static void set_element(const uint64_t *place, const uint64_t *at, uint32_t value)
{
    const uint32_t *e = element(place, at);
    if (e)
        m.plain[e - m.plain] = value;
}

/* Counts on in a grid, in the order of C. False: it was the last place. */
static bool next_place(uint64_t *at, const uint64_t *sizes, unsigned ndim)
{
    for (unsigned d = ndim; d-- > 0;) {
        if (++at[d] < sizes[d])
            return true;
        at[d] = 0;
    }
    return false;
}

/* One chunk, shuffled and compressed unless its mask leaves that out: its bytes at `to`. */
static size_t make_chunk(const struct leat_stored_chunk *k, const uint64_t *place, uint8_t *to, size_t room)
{
    static uint8_t bytes[4 * ELEMENTS], shuffled[4 * ELEMENTS];
    uint64_t at[LEAT_STORED_DIMS] = {0};
    size_t n = 0, made;
    do {
        const uint32_t *e = element(place, at);
        leat_put_u32(bytes + 4 * n++, e ? *e : UINT32_C(0xdeadbeef));
    } while (next_place(at, m.a.chunk, m.a.ndim));
    for (size_t i = 0; i < 4 * n; i++)
        shuffled[k->mask & 1 ? i : i % 4 * n + i / 4] = bytes[i];
    if (k->mask & 2 || m.a.n_filters < 2) {
        assert_true(4 * n <= room);
        memcpy(to, m.a.n_filters ? shuffled : bytes, 4 * n);
        return 4 * n;
    }
    struct libdeflate_compressor *z = libdeflate_alloc_compressor(1);
    made = libdeflate_zlib_compress(z, shuffled, 4 * n, to, room);
    libdeflate_free_compressor(z);
    assert_true(made);
    return made;
}

/* Fills `m`: an array of ndim dimensions that `key` decides about, in n_files files. */
static void make_array(uint64_t key, unsigned ndim, uint64_t n_files, unsigned n_filters)
{
    static const uint64_t most[] = {0, 900, 40, 12, 7};
    uint64_t grid[LEAT_STORED_DIMS], place[LEAT_STORED_DIMS] = {0}, draw = 0;
    size_t used[FILES] = {0}, n = 1;
    m.a = (struct leat_stored_array){.name = "x",
                                     .item = 4,
                                     .ndim = ndim,
                                     .filters = {{LEAT_FILTER_SHUFFLE, 4}, {LEAT_FILTER_ZLIB, 0}},
                                     .n_filters = n_filters,
                                     .files = m.names,
                                     .n_files = n_files,
                                     .chunks = m.chunks};
    leat_put_u32(m.a.fill, 0x12345678);
    m.elements = 1;
    for (unsigned d = 0; d < ndim; d++) {
        m.a.shape[d] = 1 + leat_draw_below(key, draw++, most[ndim]);
        m.a.chunk[d] = 1 + leat_draw_below(key, draw++, m.a.shape[d] + 2);
        if (ndim == 1 && m.a.chunk[d] < 3)
            m.a.chunk[d] = 3;
        grid[d] = (m.a.shape[d] + m.a.chunk[d] - 1) / m.a.chunk[d];
        m.elements *= m.a.shape[d];
        n *= grid[d];
    }
    if (n > CHUNKS) { /* chunks of one element would be too many */
        n = 1;
        for (unsigned d = 0; d < ndim; d++) {
            m.a.chunk[d] += 2;
            grid[d] = (m.a.shape[d] + m.a.chunk[d] - 1) / m.a.chunk[d];
            n *= grid[d];
        }
    }
    assert_true(n <= CHUNKS && m.elements <= ELEMENTS);
    m.a.n_chunks = n;
    for (uint64_t i = 0; i < m.elements; i++)
        m.plain[i] = (uint32_t)(leat_draw_below(key + 1, i, 1000));
    for (size_t i = 0; i < n; i++, next_place(place, grid, ndim)) {
        struct leat_stored_chunk *k = &m.chunks[i];
        *k = (struct leat_stored_chunk){.file = (uint32_t)leat_draw_below(key + 2, i, n_files),
                                        .mask = (uint32_t)leat_draw_below(key + 3, i, n_filters < 2 ? 1 : 4)};
        if (leat_draw_below(key + 4, i, 5) == 0) {
            uint64_t at[LEAT_STORED_DIMS] = {0};
            k->offset = LEAT_STORED_MISSING;
            k->file = UINT32_MAX; /* of no meaning */
            do
                set_element(place, at, 0x12345678);
            while (next_place(at, m.a.chunk, ndim));
            continue;
        }
        used[k->file] += leat_draw_below(key + 5, i, 9); /* a gap */
        k->offset = used[k->file];
        k->bytes = make_chunk(k, place, m.text[k->file] + k->offset, sizeof m.text[0] - k->offset);
        used[k->file] += k->bytes;
    }
    for (uint64_t f = 0; f < n_files; f++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", (int)f);
        files_write(folder, name, m.text[f], used[f] + 1);
        snprintf(m.paths[f], sizeof m.paths[f], "%s/%s", folder, name);
        m.names[f] = m.paths[f];
        m.sizes[f] = used[f] + 1;
    }
}

static struct leat_chunked *open_array(void)
{
    struct leat_chunked *c;
    struct leat_error error;
    assert_ok(leat_chunked_new(&m.a, &c, &error));
    assert_int_equal(leat_chunked_elements(c), m.elements);
    return c;
}

static void assert_reads(struct leat_chunked *c, uint64_t first, uint64_t n)
{
    struct leat_error error;
    uint32_t *to = malloc(n ? 4 * n : 1);
    assert_non_null(to);
    assert_ok(leat_chunked_read(c, first, n, to, &error));
    assert_memory_equal(to, m.plain + first, 4 * n);
    free(to);
}

static void assert_all_reads(uint64_t key)
{
    struct leat_chunked *c = open_array();
    for (uint64_t i = 0; i < 30; i++) {
        const uint64_t first = leat_draw_below(key, 2 * i, m.elements + 1);
        leat_chunked_ahead(c, first, m.elements - first);
        assert_reads(c, first, leat_draw_below(key, 2 * i + 1, m.elements - first + 1));
    }
    assert_reads(c, 0, m.elements);
    assert_int_equal(leat_chunked_check(c, NULL), LEAT_OK);
    leat_chunked_free(c);
}

TEST(chunks_that_divide_nothing_give_the_array_whatever_its_dimensions)
{
    for (unsigned ndim = 1; ndim <= 4; ndim++)
        for (uint64_t key = 0; key < 40; key += test_every(2)) {
            make_array(100 * ndim + key, ndim, 1 + key % 3, (unsigned)key % 3);
            assert_all_reads(key);
        }
}

TEST(chunks_lie_in_more_files_than_stay_open)
{
    for (uint64_t key = 0; key < 6; key++) {
        make_array(1000 + key, 1 + (unsigned)key % 4, 16 + key * 4, 2);
        m.a.sizes = m.sizes;
        assert_all_reads(key);
    }
}

TEST(a_chunk_without_a_length_is_its_whole_file)
{
    make_array(7, 1, FILES, 2);
    assert_true(m.a.n_chunks > 1 && m.a.n_chunks <= FILES);
    m.a.n_files = m.a.n_chunks;
    for (uint64_t i = 0; i < m.a.n_chunks; i++) {
        const uint64_t place[1] = {i};
        char name[16];
        m.chunks[i] = (struct leat_stored_chunk){.bytes = LEAT_STORED_MISSING, .file = (uint32_t)i};
        snprintf(name, sizeof name, "c%d", (int)i);
        files_write(folder, name, m.text[i], make_chunk(&m.chunks[i], place, m.text[i], sizeof m.text[i]));
    }
    assert_all_reads(1);
}

TEST(elements_beyond_the_array_are_not_read)
{
    uint32_t to[4];
    make_array(7, 2, 1, 2);
    for (unsigned chunked = 0; chunked < 2; chunked++) {
        struct leat_chunked *c = open_array();
        assert_int_equal(leat_chunked_read(c, m.elements, 1, to, NULL), LEAT_E_INVALID);
        assert_int_equal(leat_chunked_read(c, m.elements - 1, 2, to, NULL), LEAT_E_INVALID);
        assert_int_equal(leat_chunked_read(c, 2, UINT64_MAX, to, NULL), LEAT_E_INVALID);
        assert_int_equal(leat_chunked_read(c, UINT64_MAX, 2, to, NULL), LEAT_E_INVALID);
        assert_int_equal(leat_chunked_read(c, UINT64_MAX, 0, to, NULL), LEAT_OK);
        leat_chunked_ahead(c, 2, UINT64_MAX);
        leat_chunked_free(c);
        m.a.n_chunks = m.a.n_filters = 0;
    }
}

TEST(an_array_of_no_elements_has_no_chunks_whatever_its_filters)
{
    make_array(7, 2, 1, 2);
    m.a.shape[1] = m.a.n_chunks = m.elements = 0;
    assert_all_reads(1);
}

/* ---- whole arrays -------------------------------------------------------------------------------- */

TEST(an_array_lies_anywhere_in_its_file_and_in_the_other_order_of_bytes)
{
    static uint8_t text[16 * ELEMENTS + 16];
    for (unsigned item = 1; item <= 16; item++)
        for (unsigned part = 0; part <= item; part++) {
            if (part && item % part)
                continue;
            const uint64_t n = 50 + item, offset = item * 7 % 16;
            uint8_t got[16 * 70];
            make_array(7, 1, 1, 0);
            for (uint64_t i = 0; i < offset + n * item; i++)
                text[i] = (uint8_t)(i * 7 + i / 256);
            files_write(folder, "c0", text, offset + n * item);
            m.a.n_chunks = 0;
            m.a.item = item;
            m.a.offset = offset;
            m.a.shape[0] = m.elements = n;
            m.a.filters[0] = (struct leat_stored_filter){LEAT_FILTER_SWAP, part};
            m.a.n_filters = part > 0;
            struct leat_chunked *c = open_array();
            for (uint64_t first = 0; first < n; first += 13) {
                assert_int_equal(leat_chunked_read(c, first, n - first, got, NULL), LEAT_OK);
                for (uint64_t i = 0; i < (n - first) * item; i++) {
                    const uint64_t from = part ? i / part * part + part - 1 - i % part : i;
                    assert_int_equal(got[i], text[offset + first * item + from]);
                }
            }
            leat_chunked_free(c);
        }
}

TEST(a_filter_of_chunks_is_no_filter_of_a_whole_array)
{
    struct leat_chunked *c;
    const struct leat_stored_filter filters[] = {
        {LEAT_FILTER_ZLIB, 0}, {LEAT_FILTER_SHUFFLE, 4}, {LEAT_FILTER_SWAP, 8}, {LEAT_FILTER_SWAP, 3}};
    make_array(7, 1, 1, 0);
    m.a.n_chunks = 0;
    m.a.n_filters = 1;
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        m.a.filters[0] = filters[i];
        assert_int_equal(leat_chunked_new(&m.a, &c, NULL), LEAT_E_UNSUPPORTED);
        assert_null(c);
    }
}

/* ---- threads and processes ------------------------------------------------------------------------ */

static struct leat_chunked *opening;
static int (*usual_open)(const char *path, int flags);
static int opened_fd;

/* Opens a file slowly: meanwhile the same array is opened and read, and the process forks. */
static int slow_open(const char *path, int flags)
{
    test_open_path = usual_open;
    assert_reads(opening, 0, m.elements);
    const pid_t child = fork();
    if (!child)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return opened_fd = usual_open(path, flags);
}

TEST(while_a_file_is_opened_others_open_it_too_and_the_process_forks)
{
    make_array(7, 1, 1, 0);
    for (uint64_t i = 0; i < m.elements; i++)
        leat_put_u32(m.text[0] + 4 * i, m.plain[i]);
    files_write(folder, "c0", m.text[0], 4 * m.elements);
    m.a.n_chunks = 0;
    opening = open_array();
    usual_open = test_open_path;
    test_open_path = slow_open;
    assert_reads(opening, 0, m.elements);
    assert_ptr_equal(test_open_path, usual_open);
    assert_int_equal(fcntl(opened_fd, F_GETFD),
                     -1); /* the file that was opened meanwhile stays, and this one is closed */
    leat_chunked_free(opening);
}

static pthread_barrier_t start;

static void *read_at_start(void *user)
{
    uint32_t *to = malloc(4 * ELEMENTS);
    pthread_barrier_wait(&start);
    const int rc = to ? leat_chunked_read(user, 0, m.elements, to, NULL) : LEAT_E_NOMEM;
    const bool good = !rc && memcmp(to, m.plain, 4 * m.elements) == 0 && !leat_chunked_check(user, NULL);
    free(to);
    return good ? user : NULL;
}

TEST(threads_read_an_array_of_which_nothing_is_open)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    for (uint64_t key = 0; key < 20; key++) {
        make_array(2000 + key, 1 + (unsigned)key % 4, 1 + key % 3, 2);
        struct leat_chunked *c = open_array();
        assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
        for (size_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, read_at_start, c), 0);
        for (size_t i = 0; i < THREADS; i++) {
            void *good;
            pthread_join(threads[i], &good);
            assert_ptr_equal(good, c);
        }
        pthread_barrier_destroy(&start);
        leat_chunked_free(c);
    }
}

/* ---- damage --------------------------------------------------------------------------------------- */

static int read_all(struct leat_error *error)
{
    static uint32_t to[ELEMENTS];
    struct leat_chunked *c;
    int rc = leat_chunked_new(&m.a, &c, error);
    rc = rc ? rc : leat_chunked_read(c, 0, m.elements, to, error);
    leat_chunked_free(c);
    return rc;
}

TEST(a_file_that_was_cut_is_damaged_or_another_one)
{
    struct leat_error error;
    make_array(77, 2, 1, 2);
    for (unsigned says_size = 0; says_size < 2; says_size++) {
        m.a.sizes = says_size ? m.sizes : NULL;
        assert_ok(read_all(&error));
        for (uint64_t cut = 0; cut + 1 < m.sizes[0]; cut += 1 + m.sizes[0] / 50) {
            files_write(folder, "c0", m.text[0], cut);
            assert_int_equal(read_all(&error), says_size ? LEAT_E_CHANGED : LEAT_E_DECODE);
            assert_non_null(strstr(error.file, "/c0"));
        }
        files_write(folder, "c0", m.text[0], m.sizes[0]);
    }
    unlink(m.paths[0]);
    assert_int_equal(read_all(NULL), LEAT_E_NOT_FOUND);
}

TEST(a_whole_array_that_leads_beyond_its_file_was_cut)
{
    make_array(77, 1, 1, 0);
    m.a.n_chunks = 0;
    m.a.shape[0] = m.elements = m.sizes[0] / 4 + 1;
    assert_true(m.elements <= ELEMENTS);
    assert_int_equal(read_all(NULL), LEAT_E_CHANGED);
    m.a.shape[0] = m.elements = 4;
    m.a.offset = m.sizes[0] - 15;
    assert_int_equal(read_all(NULL), LEAT_E_CHANGED);
    m.a.offset = m.sizes[0] - 16;
    assert_int_equal(read_all(NULL), LEAT_OK);
}

TEST(a_file_with_another_time_is_another_one)
{
    struct stat s;
    make_array(77, 2, 1, 2);
    assert_int_equal(stat(m.paths[0], &s), 0);
    m.times[0] = (int64_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec;
    m.a.times = m.times;
    assert_int_equal(read_all(NULL), LEAT_OK);
    m.times[0]++;
    assert_int_equal(read_all(NULL), LEAT_E_CHANGED);
    m.times[0] = 0; /* not known */
    assert_int_equal(read_all(NULL), LEAT_OK);
}

TEST(a_file_that_changes_while_it_is_open_is_found_by_a_check)
{
    struct leat_error error;
    make_array(77, 2, 3, 2);
    struct leat_chunked *c = open_array();
    assert_ok(leat_chunked_check(c, &error)); /* nothing is open */
    assert_reads(c, 0, m.elements);
    assert_ok(leat_chunked_check(c, &error));
    files_write(folder, "c1", m.text[1], m.sizes[1] + 1);
    assert_int_equal(leat_chunked_check(c, &error), LEAT_E_CHANGED);
    assert_non_null(strstr(error.message, "/c1"));
    leat_chunked_free(c);
}

TEST(a_damaged_chunk_names_its_file_and_byte_and_others_are_read)
{
    struct leat_error error;
    char text[64];
    static uint32_t to[ELEMENTS];
    make_array(7, 1, 1, 2);
    struct leat_stored_chunk *k = &m.chunks[0];
    while (k->offset == LEAT_STORED_MISSING || k->mask)
        k++;
    const uint64_t band = (uint64_t)(k - m.chunks);
    m.text[0][k->offset + k->bytes / 2] ^= 0x55;
    files_write(folder, "c0", m.text[0], m.sizes[0]);
    struct leat_chunked *c = open_array();
    assert_true(m.a.n_chunks > 2);
    for (uint64_t i = 0; i < m.a.n_chunks; i++) {
        const int rc = leat_chunked_read(c, i * m.a.chunk[0], 1, to, &error);
        assert_int_equal(rc, i == band ? LEAT_E_DECODE : LEAT_OK);
        if (!rc)
            continue;
        assert_int_equal(error.offset, k->offset);
        assert_string_equal(error.file, m.paths[0]);
        snprintf(text, sizeof text, "chunk %d at byte %d is damaged", (int)i, (int)k->offset);
        assert_non_null(strstr(error.message, text));
    }
    leat_chunked_free(c);
}

/* ---- tables that are wrong ------------------------------------------------------------------------ */

TEST(chunks_beyond_the_file_are_damaged)
{
    static const uint64_t wrong[][2] = {{0, UINT64_MAX - 1},         {UINT64_MAX - 1, 2}, {1, 1 << 30},
                                        {UINT64_C(1) << 63, 1 << 4}, {1 << 30, 0},        {INT64_MAX, INT64_MAX}};
    make_array(7, 1, 1, 2);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        m.chunks[1] = (struct leat_stored_chunk){.offset = wrong[i][0], .bytes = wrong[i][1]};
        assert_int_equal(read_all(NULL), LEAT_E_DECODE);
    }
}

TEST(sizes_that_make_no_sense_are_refused_before_anything_is_read)
{
    struct leat_chunked *c;
    make_array(7, 2, 1, 2);
    const struct leat_stored_array good = m.a;
#define REFUSED(change, code)                                                                                          \
    do {                                                                                                               \
        m.a = good;                                                                                                    \
        change;                                                                                                        \
        assert_int_equal(leat_chunked_new(&m.a, &c, NULL), code);                                                      \
        assert_null(c);                                                                                                \
    } while (0)
    REFUSED(m.a.item = 0, LEAT_E_INVALID);
    REFUSED(m.a.item = 17, LEAT_E_INVALID);
    REFUSED(m.a.ndim = 0, LEAT_E_INVALID);
    REFUSED(m.a.ndim = 9, LEAT_E_INVALID);
    REFUSED(m.a.n_filters = 9, LEAT_E_INVALID);
    REFUSED(m.a.n_files = 0, LEAT_E_INVALID);
    REFUSED(m.a.n_chunks--, LEAT_E_INVALID);
    REFUSED(m.a.n_chunks++, LEAT_E_INVALID);
    REFUSED(m.a.chunk[1] = 0, LEAT_E_INVALID);
    REFUSED(m.a.shape[0] = UINT64_MAX, LEAT_E_INVALID);
    REFUSED(m.a.shape[0] = m.a.shape[1] = UINT64_C(1) << 32, LEAT_E_INVALID);
    REFUSED(m.a.shape[0] = 0, LEAT_E_INVALID);
    REFUSED(m.a.chunk[0] = UINT64_MAX, LEAT_E_INVALID);
    REFUSED(m.a.chunk[0] = m.a.chunk[1] = UINT64_MAX, LEAT_E_INVALID);
    REFUSED(m.a.offset = INT64_MAX, LEAT_E_INVALID);
    REFUSED(m.a.offset = UINT64_MAX; m.a.n_chunks = 0; m.a.n_filters = 0, LEAT_E_INVALID);
    REFUSED(m.a.filters[1].kind = 0, LEAT_E_UNSUPPORTED);
    REFUSED(m.a.filters[1].kind = 99, LEAT_E_UNSUPPORTED);
    REFUSED(m.a.filters[0].arg = 0, LEAT_E_UNSUPPORTED);
    REFUSED(m.a.filters[0].arg = 257, LEAT_E_UNSUPPORTED);
    uint64_t named = 0;
    while (m.chunks[named].offset == LEAT_STORED_MISSING)
        named++;
    REFUSED(m.chunks[named].file = 1, LEAT_E_INVALID);
}

TEST(chunks_and_rows_of_chunks_have_at_most_four_gib)
{
    struct leat_chunked *c;
    static struct leat_stored_chunk four[4] = {{.offset = LEAT_STORED_MISSING},
                                               {.offset = LEAT_STORED_MISSING},
                                               {.offset = LEAT_STORED_MISSING},
                                               {.offset = LEAT_STORED_MISSING}};
    make_array(7, 1, 1, 2);
    m.a.chunks = four;
    m.a.n_chunks = 1;
    m.a.shape[0] = 10;
    m.a.chunk[0] = UINT64_C(1) << 30;
    assert_int_equal(leat_chunked_new(&m.a, &c, NULL), LEAT_OK);
    leat_chunked_free(c);
    m.a.chunk[0]++;
    assert_int_equal(leat_chunked_new(&m.a, &c, NULL), LEAT_E_INVALID);
    m.a.ndim = 2;
    m.a.n_chunks = 4;
    m.a.shape[0] = m.a.chunk[0] = 1 << 14;
    m.a.shape[1] = UINT64_C(1) << 16;
    m.a.chunk[1] = 1 << 14;
    assert_int_equal(leat_chunked_new(&m.a, &c, NULL), LEAT_OK);
    leat_chunked_free(c);
    m.a.shape[0] = m.a.chunk[0] = (1 << 14) + 1;
    assert_int_equal(leat_chunked_new(&m.a, &c, NULL), LEAT_E_INVALID);
}

TEST(a_place_is_that_of_the_chunk_or_of_the_element)
{
    uint64_t byte;
    make_array(7, 1, 1, 2);
    struct leat_chunked *c = open_array();
    for (uint64_t i = 0; i < m.elements; i++) {
        assert_string_equal(leat_chunked_place(c, i, &byte), m.paths[0]);
        assert_int_equal(byte, m.chunks[i / m.a.chunk[0]].offset);
    }
    leat_chunked_free(c);
    m.a.n_chunks = m.a.n_filters = 0;
    m.a.offset = 3;
    c = open_array();
    assert_string_equal(leat_chunked_place(c, 5, &byte), m.paths[0]);
    assert_int_equal(byte, 3 + 5 * 4);
    leat_chunked_free(c);
}

TEST_MAIN_IN(make_folder, remove_folder)
