/*
 *     file   bytes --filter n - 1--> bytes --...--> filter 0 --> elements
 *
 * Filters that keep the length (shuffle, swap) and those that only add a checksum work from one buffer into the other;
 * the last one writes where the caller wants the elements.
 */
#include "io/filters.h"

#include <libdeflate.h>
#include <string.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/library.h"

/* What bytes that were compressed in vain, and have checksums, take beside an eighth more than their elements. */
enum { SPARE = 4096 };

/* ---- libraries ------------------------------------------------------------------------------- */

/* leat calls only these functions. No release has changed their types, so no headers are needed. */
static struct blosc_functions {
    int (*decompress)(const void *from, void *to, size_t room, int threads);
    int (*validate)(const void *from, size_t bytes, size_t *decoded);
} blosc;
static struct lzf_functions {
    unsigned (*decompress)(const void *from, unsigned bytes, void *to, unsigned room);
} lzf;

static struct bzip2_functions {
    int (*decompress)(char *to, unsigned *room, char *from, unsigned bytes, int small, int verbosity);
} bzip2;
static struct brotli_functions {
    int (*decompress)(size_t bytes, const uint8_t *from, size_t *room, uint8_t *to);
} brotli;
static struct snappy_functions {
    int (*decompress)(const char *from, size_t bytes, char *to, size_t *room);
} snappy;

/* `id`_library, of the functions of that name, and what to say if it is missing. */
#define LIBRARY(id, name, file, package, ...)                                                                          \
    static const char *const id##_files[] = {file, NULL};                                                              \
    static const struct leat_library_symbol id##_symbols[] = {__VA_ARGS__, {NULL, 0}};                                 \
    static struct leat_library id##_library = {.format = name,                                                         \
                                               .files = id##_files,                                                    \
                                               .advice = "apt install " package ", and start again",                   \
                                               .symbols = id##_symbols,                                                \
                                               .functions = &(id)};                                                    \
    static const char id##_missing[] =                                                                                 \
        file ", which decodes it, is not on this machine: apt install " package ", and start again";
LIBRARY(blosc, "blosc", "libblosc.so.1", "libblosc1",
        {"blosc_decompress_ctx", offsetof(struct blosc_functions, decompress)},
        {"blosc_cbuffer_validate", offsetof(struct blosc_functions, validate)})
LIBRARY(lzf, "LZF", "liblzf.so.1", "liblzf1", {"lzf_decompress", offsetof(struct lzf_functions, decompress)})
LIBRARY(bzip2, "bzip2", "libbz2.so.1.0", "libbz2-1.0",
        {"BZ2_bzBuffToBuffDecompress", offsetof(struct bzip2_functions, decompress)})
LIBRARY(brotli, "brotli", "libbrotlidec.so.1", "libbrotli1",
        {"BrotliDecoderDecompress", offsetof(struct brotli_functions, decompress)})
LIBRARY(snappy, "snappy", "libsnappy.so.1", "libsnappy1v5",
        {"snappy_uncompress", offsetof(struct snappy_functions, decompress)})

/* ---- filters --------------------------------------------------------------------------------- */

/* HDF5's: sums of big-endian words of 16 bits, modulo 65535; a last odd byte is the upper half of one. */
static uint32_t fletcher32(const uint8_t *bytes, size_t n)
{
    uint32_t a = 0, b = 0;
    for (size_t i = 0; i < n; i += 2) {
        a += (uint32_t)bytes[i] << 8 | (i + 1 < n ? bytes[i + 1] : 0);
        b += a;
        if (i % 720 == 718 || i + 2 >= n) { /* before they overflow */
            a = (a & 0xffff) + (a >> 16);
            b = (b & 0xffff) + (b >> 16);
        }
    }
    a = (a & 0xffff) + (a >> 16);
    b = (b & 0xffff) + (b >> 16);
    return b << 16 | a;
}

static uint32_t crc32c(const uint8_t *bytes, size_t n)
{
    uint32_t c = ~UINT32_C(0);
    for (size_t i = 0; i < n; i++) {
        c ^= bytes[i];
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (UINT32_C(0x82f63b78) & -(c & 1));
    }
    return ~c;
}

/* Bytes 0 of all elements, then bytes 1, ...; what is no whole element stands behind them as it was. */
static void unshuffle(const uint8_t *bytes, size_t n, size_t size, uint8_t *to)
{
    const size_t count = n / size;
    if (size == 4)
        for (size_t i = 0; i < count; i++)
            leat_put_u32(to + 4 * i, (uint32_t)bytes[i] | (uint32_t)bytes[count + i] << 8 |
                                         (uint32_t)bytes[2 * count + i] << 16 | (uint32_t)bytes[3 * count + i] << 24);
    else
        for (size_t k = 0; k < size; k++)
            for (size_t i = 0; i < count; i++)
                to[i * size + k] = bytes[k * count + i];
    memcpy(to + count * size, bytes + count * size, n - count * size);
}

/* What is no whole element stays as it was. */
static void swap(const uint8_t *bytes, size_t n, size_t size, uint8_t *to)
{
    const size_t whole = n - n % size;
    for (size_t i = 0; i < whole; i += size)
        for (size_t k = 0; k < size; k++)
            to[i + k] = bytes[i + size - 1 - k];
    memcpy(to + whole, bytes + whole, n - whole);
}

static int inflate(enum leat_stored_filter_kind kind, const uint8_t *bytes, size_t n, uint8_t *to, size_t room,
                   size_t *made)
{
    struct libdeflate_decompressor *z = libdeflate_alloc_decompressor();
    if (!z)
        return LEAT_E_NOMEM;
    const enum libdeflate_result found =
        (kind == LEAT_FILTER_ZLIB   ? libdeflate_zlib_decompress
         : kind == LEAT_FILTER_GZIP ? libdeflate_gzip_decompress
                                    : libdeflate_deflate_decompress)(z, bytes, n, to, room, made);
    libdeflate_free_decompressor(z);
    return found == LIBDEFLATE_SUCCESS ? LEAT_OK : LEAT_E_DECODE;
}

static int unblosc(const uint8_t *bytes, size_t n, uint8_t *to, size_t room, size_t *made)
{
    size_t says;
    if (blosc.validate(bytes, n, &says) || says > room)
        return LEAT_E_DECODE;
    const int got = blosc.decompress(bytes, to, room, 1);
    *made = got < 0 ? 0 : (size_t)got;
    return got >= 0 && *made == says ? LEAT_OK : LEAT_E_DECODE;
}

/* The library that a filter needs; NULL: none. */
static struct leat_library *library_of(enum leat_stored_filter_kind kind, const char **missing)
{
    static const struct {
        enum leat_stored_filter_kind kind;
        struct leat_library *needed;
        const char *missing;
    } all[] = {{LEAT_FILTER_LZF, &lzf_library, lzf_missing},
               {LEAT_FILTER_BLOSC, &blosc_library, blosc_missing},
               {LEAT_FILTER_BZIP2, &bzip2_library, bzip2_missing},
               {LEAT_FILTER_BROTLI, &brotli_library, brotli_missing},
               {LEAT_FILTER_SNAPPY, &snappy_library, snappy_missing}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].kind == kind) {
            *missing = all[i].missing;
            return all[i].needed;
        }
    return NULL;
}

static int unbzip2(const uint8_t *bytes, size_t n, uint8_t *to, size_t room, size_t *made)
{
    unsigned got = room < UINT32_MAX ? (unsigned)room : UINT32_MAX;
    /* It does not write to what it reads, whatever its type says. */
    const int rc =
        n > UINT32_MAX ? -1 : bzip2.decompress((char *)to, &got, (char *)(uintptr_t)bytes, (unsigned)n, 0, 0);
    *made = got;
    return rc ? LEAT_E_DECODE : LEAT_OK;
}

/* One filter: at most `room` bytes, *made of them. */
static int undo(const struct leat_stored_filter *f, const uint8_t *bytes, size_t n, uint8_t *to, size_t room,
                size_t *made, const char **what)
{
    const size_t sum = f->kind == LEAT_FILTER_FLETCHER32 || f->kind == LEAT_FILTER_CRC32C ? 4 : 0;
    struct leat_library *library = library_of(f->kind, what);
    if (library && leat_library_load(library, NULL))
        return LEAT_E_DECODE;
    *what = "it does not decode";
    switch (f->kind) {
    case LEAT_FILTER_ZLIB:
    case LEAT_FILTER_GZIP:
    case LEAT_FILTER_DEFLATE:
        return inflate(f->kind, bytes, n, to, room, made);
    case LEAT_FILTER_ZSTD:
        *made = ZSTD_decompress(to, room, bytes, n);
        return ZSTD_isError(*made) ? LEAT_E_DECODE : LEAT_OK;
    case LEAT_FILTER_LZF:
        *made = n > UINT32_MAX || room > UINT32_MAX ? 0 : lzf.decompress(bytes, (unsigned)n, to, (unsigned)room);
        return *made ? LEAT_OK : LEAT_E_DECODE;
    case LEAT_FILTER_BLOSC:
        return unblosc(bytes, n, to, room, made);
    case LEAT_FILTER_BZIP2:
        return unbzip2(bytes, n, to, room, made);
    case LEAT_FILTER_BROTLI:
        *made = room;
        return brotli.decompress(n, bytes, made, to) == 1 ? LEAT_OK : LEAT_E_DECODE;
    case LEAT_FILTER_SNAPPY:
        *made = room;
        return snappy.decompress((const char *)bytes, n, (char *)to, made) ? LEAT_E_DECODE : LEAT_OK;
    case LEAT_FILTER_FLETCHER32:
    case LEAT_FILTER_CRC32C:
        *what = "its checksum does not fit its bytes";
        if (n < sum || (*made = n - sum) > room)
            return LEAT_E_DECODE;
        memcpy(to, bytes, *made);
        return leat_get_u32(bytes + *made) ==
                       (f->kind == LEAT_FILTER_CRC32C ? crc32c(bytes, *made) : fletcher32(bytes, *made))
                   ? LEAT_OK
                   : LEAT_E_DECODE;
    case LEAT_FILTER_SHUFFLE:
    case LEAT_FILTER_SWAP:
        *what = "it has more bytes than it should";
        if ((*made = n) > room)
            return LEAT_E_DECODE;
        (f->kind == LEAT_FILTER_SHUFFLE ? unshuffle : swap)(bytes, n, f->arg, to);
        return LEAT_OK;
    }
    return LEAT_E_DECODE;
}

bool leat_filters_know(const struct leat_stored_filter *f)
{
    const bool sized = f->kind == LEAT_FILTER_SHUFFLE || f->kind == LEAT_FILTER_SWAP;
    return f->kind >= LEAT_FILTER_ZLIB && f->kind <= LEAT_FILTER_SNAPPY && (!sized || (f->arg >= 1 && f->arg <= 256));
}

int leat_filters_undo(const struct leat_stored_filter *filters, size_t n_filters, uint32_t mask, const uint8_t *bytes,
                      size_t n, uint8_t *to, size_t room, const char **what)
{
    const size_t between = room + room / 8 + SPARE;
    uint8_t *buffers[2] = {NULL, NULL};
    size_t left = 0;
    int rc = LEAT_OK;
    *what = "";
    for (size_t i = 0; i < n_filters; i++)
        left += !(mask >> i & 1);
    for (size_t i = n_filters, turn = 0; i-- && !rc;) {
        if (mask >> i & 1)
            continue;
        uint8_t *out = --left ? buffers[turn % 2] : to;
        if (!out && !(out = buffers[turn % 2] = leat_alloc(between))) {
            rc = LEAT_E_NOMEM;
            break;
        }
        rc = undo(&filters[i], bytes, n, out, left ? between : room, &n, what);
        bytes = out;
        turn++;
    }
    if (!rc && n != room) {
        *what = n > room ? "it has more bytes than it should" : "it has fewer bytes than it should";
        rc = LEAT_E_DECODE;
    } else if (!rc && bytes != to) {
        memcpy(to, bytes, n);
    }
    leat_free(buffers[0]);
    leat_free(buffers[1]);
    return rc;
}
