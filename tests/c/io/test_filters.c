/* Filters of chunks, against bytes that the libraries themselves have compressed, whole, cut and of a wrong length. */
#include <dlfcn.h>
#include <libdeflate.h>
#include <zstd.h>

#include "../allocations.h"
#include "../test.h"
#include "base/bytes.h"
#include "base/random.h"
#include "io/filters.h"

enum { MOST = 6000, ROOM = 2 * MOST };

static uint8_t plain[MOST], stored[ROOM], got[ROOM];

/* Bytes that compress, but not to nothing. */
static int set_up(void **state)
{
    for (size_t i = 0; i < MOST; i++)
        plain[i] = (uint8_t)(i % 4 ? 0 : leat_draw_below(1, i, 40));
    return 0;
}

/* ---- the other direction ------------------------------------------------------------------------ */

typedef unsigned (*lzf_compress_fn)(const void *from, unsigned bytes, void *to, unsigned room);
typedef int (*blosc_compress_fn)(int level, int shuffle, size_t item, size_t bytes, const void *from, void *to,
                                 size_t room, const char *codec, size_t block, int threads);

typedef int (*bzip2_compress_fn)(char *to, unsigned *room, char *from, unsigned bytes, int block, int verbosity,
                                 int work);
typedef int (*brotli_compress_fn)(int quality, int window, int mode, size_t bytes, const uint8_t *from, size_t *room,
                                  uint8_t *to);
typedef int (*snappy_compress_fn)(const char *from, size_t bytes, char *to, size_t *room);

/* Function `name` of a library, NULL if it is not on this machine. */
static void *function_of(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    return handle ? dlsym(handle, name) : NULL;
}

/* Bytes of `n` bytes, compressed; 0: the library that can is not here. */
static size_t pack(enum leat_stored_filter_kind kind, const uint8_t *from, size_t n, uint8_t *to)
{
    struct libdeflate_compressor *z = libdeflate_alloc_compressor(6);
    lzf_compress_fn lzf;
    blosc_compress_fn blosc;
    bzip2_compress_fn bzip2;
    brotli_compress_fn brotli;
    snappy_compress_fn snappy;
    void *found;
    size_t made = 0;
    if (kind == LEAT_FILTER_ZLIB)
        made = libdeflate_zlib_compress(z, from, n, to, ROOM);
    else if (kind == LEAT_FILTER_GZIP)
        made = libdeflate_gzip_compress(z, from, n, to, ROOM);
    else if (kind == LEAT_FILTER_DEFLATE)
        made = libdeflate_deflate_compress(z, from, n, to, ROOM);
    else if (kind == LEAT_FILTER_ZSTD)
        made = ZSTD_compress(to, ROOM, from, n, 3);
    else if (kind == LEAT_FILTER_LZF && (found = function_of("liblzf.so.1", "lzf_compress"))) {
        memcpy(&lzf, &found, sizeof lzf);
        made = lzf(from, (unsigned)n, to, ROOM);
    } else if (kind == LEAT_FILTER_BLOSC && (found = function_of("libblosc.so.1", "blosc_compress_ctx"))) {
        memcpy(&blosc, &found, sizeof blosc);
        const int length = blosc(5, 1, 4, n, from, to, ROOM, "lz4", 0, 1);
        made = length > 0 ? (size_t)length : 0;
    } else if (kind == LEAT_FILTER_BZIP2 && (found = function_of("libbz2.so.1.0", "BZ2_bzBuffToBuffCompress"))) {
        unsigned room = ROOM;
        memcpy(&bzip2, &found, sizeof bzip2);
        made = bzip2((char *)to, &room, (char *)(uintptr_t)from, (unsigned)n, 9, 0, 0) ? 0 : room;
    } else if (kind == LEAT_FILTER_BROTLI && (found = function_of("libbrotlienc.so.1", "BrotliEncoderCompress"))) {
        size_t room = ROOM;
        memcpy(&brotli, &found, sizeof brotli);
        made = brotli(5, 22, 0, n, from, &room, to) ? room : 0;
    } else if (kind == LEAT_FILTER_SNAPPY && (found = function_of("libsnappy.so.1", "snappy_compress"))) {
        size_t room = ROOM;
        memcpy(&snappy, &found, sizeof snappy);
        made = snappy((const char *)from, n, (char *)to, &room) ? 0 : room;
    }
    libdeflate_free_compressor(z);
    return made;
}

/* Out of a copy of that length, so that a sanitizer sees a read behind it, into exactly `room` bytes. */
static int undo(const struct leat_stored_filter *filters, size_t n_filters, uint32_t mask, const uint8_t *bytes,
                size_t n, size_t room, const char **what)
{
    uint8_t *from = malloc(n ? n : 1), *to = malloc(room ? room : 1);
    assert_true(from && to);
    memcpy(from, bytes, n);
    const int rc = leat_filters_undo(filters, n_filters, mask, from, n, to, room, what);
    memcpy(got, to, rc ? 0 : room);
    free(from);
    free(to);
    return rc;
}

static void assert_undone(const struct leat_stored_filter *filters, size_t n_filters, uint32_t mask, size_t n,
                          size_t room)
{
    const char *what;
    const int rc = undo(filters, n_filters, mask, stored, n, room, &what);
    if (rc)
        fail_msg("filter %d of %zu: %s", (int)filters->kind, n_filters, what);
    assert_memory_equal(got, plain, room);
}

static const enum leat_stored_filter_kind compressed[] = {LEAT_FILTER_ZLIB,    LEAT_FILTER_GZIP,   LEAT_FILTER_ZSTD,
                                                          LEAT_FILTER_DEFLATE, LEAT_FILTER_LZF,    LEAT_FILTER_BLOSC,
                                                          LEAT_FILTER_BZIP2,   LEAT_FILTER_BROTLI, LEAT_FILTER_SNAPPY};
#define FOR_COMPRESSED(kind) for (size_t kind = 0; kind < sizeof compressed / sizeof *compressed; kind++)

TEST(what_libraries_have_compressed_is_read_and_only_at_its_length)
{
    const char *what;
    FOR_COMPRESSED(k)
    {
        const struct leat_stored_filter f = {compressed[k], 0};
        for (size_t n = 100; n <= MOST; n += n == 100 ? 1 : 997) {
            const size_t made = pack(f.kind, plain, n, stored);
            if (!made)
                continue; /* its library is not here */
            assert_undone(&f, 1, 0, made, n);
            assert_int_equal(undo(&f, 1, 0, stored, made, n - 1, &what), LEAT_E_DECODE);
            assert_int_equal(undo(&f, 1, 0, stored, made, n + 1, &what), LEAT_E_DECODE);
            assert_int_equal(undo(&f, 1, 0, stored, made, 0, &what), LEAT_E_DECODE);
        }
    }
}

TEST(bytes_that_end_anywhere_are_damaged)
{
    const char *what;
    FOR_COMPRESSED(k)
    {
        const struct leat_stored_filter f = {compressed[k], 0};
        const size_t n = 1500, made = pack(f.kind, plain, n, stored);
        for (size_t cut = 0; cut < made; cut++) {
            assert_int_equal(undo(&f, 1, 0, stored, cut, n, &what), LEAT_E_DECODE);
            assert_true(*what);
        }
    }
}

TEST(bytes_that_were_changed_give_an_error_or_bytes_of_the_right_length)
{
    const char *what;
    FOR_COMPRESSED(k)
    {
        const struct leat_stored_filter f = {compressed[k], 0};
        const size_t n = 1500, made = pack(f.kind, plain, n, stored);
        for (size_t at = 0; at < made; at++) {
            const uint8_t before = stored[at];
            stored[at] ^= (uint8_t)(1 + leat_draw_below(2, at, 255));
            const int rc = undo(&f, 1, 0, stored, made, n, &what);
            assert_true(rc == LEAT_OK || rc == LEAT_E_DECODE);
            stored[at] = before;
        }
    }
}

TEST(no_filter_gives_the_bytes_as_they_are)
{
    const char *what;
    memcpy(stored, plain, 100);
    assert_undone(NULL, 0, 0, 100, 100);
    assert_int_equal(undo(NULL, 0, 0, stored, 100, 101, &what), LEAT_E_DECODE);
    assert_string_equal(what, "it has fewer bytes than it should");
    assert_int_equal(undo(NULL, 0, 0, stored, 100, 99, &what), LEAT_E_DECODE);
    assert_string_equal(what, "it has more bytes than it should");
}

/* ---- shuffle and swap ---------------------------------------------------------------------------- */

TEST(bytes_are_put_together_to_elements_of_every_size_whatever_remains)
{
    for (unsigned size = 1; size <= 16; size++)
        for (size_t n = 0; n < 5 * size; n++) {
            const size_t count = n / size;
            for (size_t i = 0; i < n; i++)
                plain[i] = (uint8_t)(i + 1);
            memcpy(stored, plain, n);
            for (size_t i = 0; i < count; i++)
                for (size_t b = 0; b < size; b++)
                    stored[b * count + i] = plain[i * size + b];
            assert_undone(&(struct leat_stored_filter){LEAT_FILTER_SHUFFLE, size}, 1, 0, n, n);
            memcpy(stored, plain, n);
            for (size_t i = 0; i < count; i++)
                for (size_t b = 0; b < size; b++)
                    stored[i * size + b] = plain[(i + 1) * size - 1 - b];
            assert_undone(&(struct leat_stored_filter){LEAT_FILTER_SWAP, size}, 1, 0, n, n);
        }
    set_up(NULL);
}

TEST(filters_that_keep_the_length_refuse_more_bytes_than_there_should_be)
{
    const char *what;
    const struct leat_stored_filter shuffle = {LEAT_FILTER_SHUFFLE, 4}, swap = {LEAT_FILTER_SWAP, 4};
    for (size_t n = 0; n < 20; n++) {
        assert_int_equal(undo(&shuffle, 1, 0, stored, n, 8, &what), n == 8 ? LEAT_OK : LEAT_E_DECODE);
        assert_int_equal(undo(&swap, 1, 0, stored, n, 8, &what), n == 8 ? LEAT_OK : LEAT_E_DECODE);
    }
}

TEST(what_no_filter_is_is_not_known)
{
    for (unsigned kind = 0; kind < 15; kind++)
        for (unsigned arg = 0; arg < 300; arg += 256 / 4) {
            const struct leat_stored_filter f = {(enum leat_stored_filter_kind)kind, arg};
            const bool sized = kind == LEAT_FILTER_SHUFFLE || kind == LEAT_FILTER_SWAP;
            assert_int_equal(leat_filters_know(&f), kind >= 1 && kind <= 13 && (!sized || (arg > 0 && arg <= 256)));
        }
}

/* ---- checksums ----------------------------------------------------------------------------------- */

static void assert_sum(enum leat_stored_filter_kind kind, const void *bytes, size_t n, uint32_t sum)
{
    const struct leat_stored_filter f = {kind, 0};
    const char *what;
    memcpy(stored, bytes, n);
    leat_put_u32(stored + n, sum);
    assert_int_equal(undo(&f, 1, 0, stored, n + 4, n, &what), LEAT_OK);
    assert_memory_equal(got, bytes, n);
    for (size_t i = 0; i < n + 4; i++) {
        stored[i] ^= 1;
        assert_int_equal(undo(&f, 1, 0, stored, n + 4, n, &what), LEAT_E_DECODE);
        stored[i] ^= 1;
    }
    for (size_t cut = 0; cut < n + 4; cut++)
        assert_int_equal(undo(&f, 1, 0, stored, cut, n, &what), LEAT_E_DECODE);
}

/* Those of RFC 3720, B.4, and of the catalogue of CRCs. */
TEST(crc32c_gives_the_published_sums)
{
    uint8_t bytes[32];
    assert_sum(LEAT_FILTER_CRC32C, "", 0, 0);
    assert_sum(LEAT_FILTER_CRC32C, "123456789", 9, 0xe3069283);
    memset(bytes, 0, 32);
    assert_sum(LEAT_FILTER_CRC32C, bytes, 32, 0x8a9136aa);
    memset(bytes, 0xff, 32);
    assert_sum(LEAT_FILTER_CRC32C, bytes, 32, 0x62a8ab43);
    for (uint8_t i = 0; i < 32; i++)
        bytes[i] = i;
    assert_sum(LEAT_FILTER_CRC32C, bytes, 32, 0x46dd794e);
    for (uint8_t i = 0; i < 32; i++)
        bytes[i] = 31 - i;
    assert_sum(LEAT_FILTER_CRC32C, bytes, 32, 0x113fdb5c);
}

/* Fletcher 1982, by words of which the first byte is the upper one, as HDF5 counts them. */
TEST(fletcher32_gives_the_sums_of_small_chunks_of_odd_lengths_too)
{
    const uint8_t bytes[] = {23, 187, 98, 217};
    assert_sum(LEAT_FILTER_FLETCHER32, bytes, 1, 0x17001700);
    assert_sum(LEAT_FILTER_FLETCHER32, bytes, 2, 0x17bb17bb);
    assert_sum(LEAT_FILTER_FLETCHER32, bytes, 3, 0x917679bb);
    assert_sum(LEAT_FILTER_FLETCHER32, bytes, 4, 0x924f7a94);
}

static uint32_t ones_complement(uint64_t sum)
{
    return (uint32_t)(sum && sum % 65535 == 0 ? 65535 : sum % 65535);
}

TEST(fletcher32_does_not_overflow_in_long_chunks)
{
    const char *what;
    for (unsigned filling = 0; filling < 3; filling++)
        for (size_t n = 1; n <= MOST; n += n < 1500 ? 1 : 499) {
            uint64_t a = 0, b = 0;
            for (size_t i = 0; i < n; i++)
                stored[i] = filling == 2 ? 0xff : filling ? (uint8_t)leat_draw_u64(3, i) : 0;
            for (size_t i = 0; i < n; i += 2) {
                a += (uint64_t)stored[i] << 8 | (i + 1 < n ? stored[i + 1] : 0);
                b += a;
            }
            leat_put_u32(stored + n, ones_complement(b) << 16 | ones_complement(a));
            assert_int_equal(
                undo(&(struct leat_stored_filter){LEAT_FILTER_FLETCHER32, 0}, 1, 0, stored, n + 4, n, &what), LEAT_OK);
        }
}

/* ---- pipelines ------------------------------------------------------------------------------------ */

/* Shuffled, compressed and with a checksum, but for those that `mask` leaves out. */
static size_t through_all(enum leat_stored_filter_kind kind, uint32_t mask, size_t n)
{
    static uint8_t shuffled[MOST];
    size_t made = n;
    for (size_t i = 0; i < n; i++)
        shuffled[mask & 1 ? i : i % 4 * (n / 4) + i / 4] = plain[i];
    if (mask & 2)
        memcpy(stored, shuffled, n);
    else
        made = pack(kind, shuffled, n, stored);
    if (made && !(mask & 4)) {
        uint64_t a = 0, b = 0;
        for (size_t i = 0; i < made; i += 2) {
            a += (uint64_t)stored[i] << 8 | (i + 1 < made ? stored[i + 1] : 0);
            b += a;
        }
        leat_put_u32(stored + made, ones_complement(b) << 16 | ones_complement(a));
        made += 4;
    }
    return made;
}

TEST(a_pipeline_is_undone_from_its_end_without_those_that_were_left_out)
{
    const char *what;
    FOR_COMPRESSED(k)
    for (uint32_t mask = 0; mask < 8; mask++) {
        const struct leat_stored_filter filters[] = {
            {LEAT_FILTER_SHUFFLE, 4}, {compressed[k], 0}, {LEAT_FILTER_FLETCHER32, 0}};
        const size_t n = 4000, made = through_all(compressed[k], mask, n);
        if (!made)
            continue;
        assert_undone(filters, 3, mask, made, n);
        assert_undone(filters, 3, mask | UINT32_C(0xfffffff8), made, n);
        for (size_t cut = 0; cut < made; cut += 37)
            assert_int_equal(undo(filters, 3, mask, stored, cut, n, &what), LEAT_E_DECODE);
        assert_int_equal(undo(filters, 3, mask, stored, made, n + 4, &what), LEAT_E_DECODE);
        assert_int_equal(undo(filters, 3, mask, stored, made, n - 4, &what), LEAT_E_DECODE);
    }
}

TEST(a_chunk_that_grew_when_it_was_compressed_is_read)
{
    const struct leat_stored_filter twice[] = {{LEAT_FILTER_ZLIB, 0}, {LEAT_FILTER_ZSTD, 0}, {LEAT_FILTER_CRC32C, 0}};
    static uint8_t once[ROOM];
    for (size_t i = 0; i < MOST; i++)
        plain[i] = (uint8_t)leat_draw_u64(4, i);
    const size_t made = pack(LEAT_FILTER_ZLIB, plain, MOST, once), again = pack(LEAT_FILTER_ZSTD, once, made, stored);
    assert_true(made > MOST && again > made);
    assert_undone(twice, 2, 4, again, MOST);
    set_up(NULL);
}

TEST(no_memory_is_said_apart_from_damage)
{
    const struct leat_stored_filter filters[] = {
        {LEAT_FILTER_SHUFFLE, 4}, {LEAT_FILTER_ZLIB, 0}, {LEAT_FILTER_FLETCHER32, 0}};
    const size_t n = 4000, made = through_all(LEAT_FILTER_ZLIB, 0, n);
    const char *what;
    for (int64_t k = 0, rc = LEAT_E_NOMEM; rc; k++) {
        fail_allocation(k);
        rc = undo(filters, 3, 0, stored, made, n, &what);
        assert_int_equal(rc, allocation_failed() ? LEAT_E_NOMEM : LEAT_OK);
    }
    assert_memory_equal(got, plain, n);
}

TEST_MAIN_IN(set_up, NULL)
