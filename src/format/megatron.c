/*
 * Megatron's indexed data sets: tokens of documents in PREFIX.bin, where they lie in PREFIX.idx.
 *
 *     "MMIDIDX" 0 0 | u64 1 | u8 dtype | u64 sequences S | u64 D | i32 length[S] | i64 offset[S] | i64 document[D]
 *                                                                              | i8 mode[S], of multimodal data only
 *
 * All is little-endian and not aligned. Document d is the sequences document[d] to document[d + 1] - 1, mostly one. A
 * sample is a document: `tokens`, a ragged array of the file's dtype, read by extent. Sequences of a document follow
 * each other in the .bin, and where they do not, opening says so.
 *
 * There are no checksums. The fingerprint is over the lengths of the documents, and the beginning, the end and pieces
 * between of the .bin, which may have hundreds of gigabytes.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "format/source.h"

enum { HEADER = 34, PIECES = 16, PIECE = 64 << 10 };
static const char magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};

struct megatron {
    struct leat_source source;
    struct leat_field field;
    uint8_t storage;
    char *index_path, *path;
    struct leat_io_file *file;
    uint64_t *starts; /* of each document, in the .bin, and of its end: [2 d], [2 d + 1] */
    uint64_t index_bytes;
    size_t element;
};

static bool megatron_recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    return !folder && n >= sizeof magic && !memcmp(head, magic, sizeof magic);
}

static void megatron_close(struct leat_source *source)
{
    struct megatron *m = (struct megatron *)source;
    leat_io_release(m->file);
    leat_free(m->starts);
    leat_free(m->index_path);
    leat_free(m->path);
    leat_free(m);
}

static int broken(const struct megatron *m, uint64_t at, struct leat_error *error, const char *what)
{
    return leat_fail_at(error, LEAT_E_CORRUPT, m->index_path, at <= INT64_MAX ? (int64_t)at : LEAT_NO_OFFSET,
                        "%s, byte %" PRIu64 ": %s: it is cut or damaged, copy it again", m->index_path, at, what);
}

static enum leat_dtype dtype_of(uint8_t code)
{
    static const enum leat_dtype dtypes[] = {0,        LEAT_U8,  LEAT_I8,  LEAT_I16, LEAT_I32,
                                             LEAT_I64, LEAT_F64, LEAT_F32, LEAT_U16};
    return code < sizeof dtypes / sizeof *dtypes ? dtypes[code] : 0;
}

/* The place of sequence i: [*begin, *end) of the .bin. */
static int sequence(const struct megatron *m, const uint8_t *lengths, const uint8_t *offsets, uint64_t i,
                    uint64_t *begin, uint64_t *end, struct leat_error *error)
{
    const uint32_t length = leat_get_u32(lengths + 4 * i);
    *begin = leat_get_u64(offsets + 8 * i);
    if (length > INT32_MAX)
        return broken(m, HEADER + 4 * i, error, "a sequence has a length below 0");
    if (*begin > m->file->size || (uint64_t)length * m->element > m->file->size - *begin)
        return leat_fail_at(error, LEAT_E_CORRUPT, m->path, *begin <= INT64_MAX ? (int64_t)*begin : LEAT_NO_OFFSET,
                            "%s: sequence %" PRIu64 " has %" PRIu32 " tokens at byte %" PRIu64
                            " of %s, which has %" PRIu64 " bytes: one of both is cut, or they do not belong together",
                            m->index_path, i, length, *begin, m->path, m->file->size);
    *end = *begin + (uint64_t)length * m->element;
    return LEAT_OK;
}

/* Finds the documents; `bytes` is the whole index of n bytes. */
static int read_index(struct megatron *m, const uint8_t *bytes, uint64_t n, struct leat_error *error)
{
    if (n < HEADER || memcmp(bytes, magic, sizeof magic) != 0)
        return broken(m, 0, error, "it does not begin as an index of Megatron does");
    if (leat_get_u64(bytes + 9) != 1)
        return leat_fail(error, LEAT_E_FORMAT, "%s has version %" PRIu64 " of Megatron's index, not 1", m->index_path,
                         leat_get_u64(bytes + 9));
    const enum leat_dtype dtype = dtype_of(bytes[17]);
    const uint64_t s = leat_get_u64(bytes + 18), d = leat_get_u64(bytes + 26);
    uint64_t need, more;
    if (!dtype)
        return broken(m, 17, error, "its type of tokens is not known");
    if (!leat_mul_u64(s, 12, &need) || !leat_mul_u64(d, 8, &more) || !leat_add_u64(need, more, &need) ||
        !leat_add_u64(need, HEADER, &need) || (need != n && (n < need || n - need != s)))
        return broken(m, 18, error, "it is not as long as its numbers of sequences and documents say");
    if (!d)
        return broken(m, 26, error, "it has no documents, not even the end of the last");
    m->element = leat_dtype_size(dtype);
    m->field = (struct leat_field){.name = "tokens", .kind = LEAT_KIND_ARRAY, .dtype = dtype, .ndim = 1, .shape = {-1}};
    const uint8_t *lengths = bytes + HEADER, *offsets = lengths + 4 * s, *documents = offsets + 8 * s;
    if (!(m->starts = leat_new_array((size_t)(2 * d), sizeof *m->starts)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", m->index_path);
    uint64_t at = leat_get_u64(documents), begin = 0, end = 0;
    if (at)
        return broken(m, (uint64_t)(documents - bytes), error, "the first document does not begin with a sequence 0");
    for (uint64_t i = 0; i + 1 < d; i++) {
        const uint64_t next = leat_get_u64(documents + 8 * (i + 1));
        if (next < at || next > s)
            return broken(m, (uint64_t)(documents - bytes) + 8 * (i + 1), error, "documents are out of order");
        for (uint64_t k = at; k < next; k++) {
            int rc = sequence(m, lengths, offsets, k, &begin, &end, error);
            if (rc)
                return rc;
            if (k > at && begin != m->starts[2 * i + 1])
                return broken(m, (uint64_t)(offsets - bytes) + 8 * k, error,
                              "a document has sequences that do not follow each other");
            if (k == at)
                m->starts[2 * i] = begin;
            m->starts[2 * i + 1] = end;
        }
        at = next;
        uint64_t sample[2] = {0, 0};
        leat_fingerprint_value(sample, leat_hash64(&(uint64_t){m->starts[2 * i + 1] - m->starts[2 * i]}, 8));
        leat_fingerprint_append(m->source.fingerprint, sample);
    }
    if (at != s)
        return broken(m, n - 8, error, "there are sequences behind the last document");
    m->source.count = d - 1;
    return LEAT_OK;
}

/* Adds pieces of the .bin to the fingerprint. */
static int hash_pieces(struct megatron *m, struct leat_error *error)
{
    uint8_t *piece = leat_alloc(PIECE);
    int rc = piece ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", m->path);
    const uint64_t n = m->file->size < PIECE ? m->file->size : PIECE;
    for (size_t i = 0; i <= PIECES && n && !rc; i++) {
        uint64_t sample[2] = {0, 0};
        rc = leat_io_read(m->file, i == PIECES ? m->file->size - n : (m->file->size - n) / PIECES * i, n, piece, error);
        if (!rc) {
            leat_fingerprint_value(sample, leat_hash64(piece, (size_t)n));
            leat_fingerprint_append(m->source.fingerprint, sample);
        }
    }
    leat_free(piece);
    return rc;
}

static int load(struct megatron *m, struct leat_error *error)
{
    struct leat_io_file *index = NULL;
    uint8_t *bytes = NULL;
    int rc = leat_io_open(m->index_path, &index, error);
    if (!rc && !(bytes = index->size < SIZE_MAX ? leat_alloc((size_t)index->size + 1) : NULL))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", m->index_path);
    rc = rc ? rc : leat_io_read(index, 0, index->size, bytes, error);
    if (!rc && (rc = leat_io_open(m->path, &m->file, error)) == LEAT_E_NOT_FOUND)
        rc = leat_fail_at(error, rc, m->path, LEAT_NO_OFFSET, "%s has no tokens beside it: %s is missing",
                          m->index_path, m->path);
    rc = rc ? rc : read_index(m, bytes, index->size, error);
    rc = rc ? rc : hash_pieces(m, error);
    m->index_bytes = rc ? 0 : index->size;
    leat_io_release(index);
    leat_free(bytes);
    return rc;
}

/* A path of one of both files, or of both without what they end with. */
static int name_files(struct megatron *m, const char *path, struct leat_error *error)
{
    size_t n = strlen(path);
    if (n > 4 && (!strcmp(path + n - 4, ".idx") || !strcmp(path + n - 4, ".bin")))
        n -= 4;
    if (!(m->index_path = leat_alloc(n + 5)) || !(m->path = leat_alloc(n + 5)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    snprintf(m->index_path, n + 5, "%.*s.idx", (int)n, path);
    snprintf(m->path, n + 5, "%.*s.bin", (int)n, path);
    return LEAT_OK;
}

static int megatron_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                         struct leat_error *error)
{
    struct megatron *m = leat_new(struct megatron);
    *out = NULL;
    int rc = m ? name_files(m, path, error) : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    rc = rc ? rc : load(m, error);
    if (rc) {
        if (m)
            megatron_close(&m->source);
        return rc;
    }
    m->storage = LEAT_STORAGE_EXTENT;
    m->source.v = &leat_format_megatron;
    m->source.path = m->index_path;
    m->source.fields = &m->field;
    m->source.n_fields = 1;
    m->source.storage = &m->storage;
    m->source.metadata = "{}";
    m->source.notice = "";
    *out = &m->source;
    return LEAT_OK;
}

static int megatron_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                            struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    const struct megatron *m = (const struct megatron *)source;
    for (size_t i = 0; i < n; i++) {
        const uint64_t *at = &m->starts[2 * samples[i]];
        extents[i] = (struct leat_extent){.offset = at[0], .length = at[1] - at[0]};
    }
    return LEAT_OK;
}

static int megatron_file(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error)
{
    *out = leat_io_retain(((const struct megatron *)source)->file);
    return LEAT_OK;
}

static void megatron_mark(struct leat_source *source, size_t field, uint64_t sample, bool verified,
                          enum leat_health health)
{
}

/* There are no checksums: whoever changes the file while it is read is told by its time. */
static int megatron_refresh(struct leat_source *source, struct leat_error *error)
{
    return leat_io_unchanged(((const struct megatron *)source)->file, error);
}

static int megatron_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error)
{
    const struct megatron *m = (const struct megatron *)source;
    *out = (struct leat_source_about){.version = 1, .bytes = m->index_bytes + m->file->size, .broken = UINT64_MAX};
    return LEAT_OK;
}

const struct leat_source_vtable leat_format_megatron = {
    .name = "megatron",
    .recognise = megatron_recognise,
    .open = megatron_open,
    .close = megatron_close,
    .extents = megatron_extents,
    .file = megatron_file,
    .mark = megatron_mark,
    .refresh = megatron_refresh,
    .about = megatron_about,
};
