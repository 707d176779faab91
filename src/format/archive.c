/* Archives of zip: archive.h. */
#include "format/archive.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "format/kept.h"
#include "io/blocks.h"
#include "io/gzip.h"
#include "io/interrupt.h"

enum {
    LOCAL = 30,
    ENTRY = 46,
    END = 22,
    LOCATOR = 20,
    END64 = 56,
    COMMENT = 65535,
    PIECE = 1 << 20,
    TELL = 16 << 20,
    STORED = 0,
    DEFLATED = 8,
    DEFLATE_RATIO = 1032
};
#define MOST_DIRECTORY (UINT64_C(16) << 20)
static const char local_mark[4] = "PK\3\4", entry_mark[4] = "PK\1\2", end_mark[4] = "PK\5\6",
                  locator_mark[4] = "PK\6\7", end64_mark[4] = "PK\6\6";

bool leat_archive_recognise(const uint8_t *head, size_t n)
{
    return n >= 4 && (!memcmp(head, local_mark, 4) || !memcmp(head, end_mark, 4));
}

static int broken(const struct leat_io_file *file, uint64_t at, const char *what, struct leat_error *error)
{
    return leat_fail_at(error, LEAT_E_CORRUPT, file->path, at <= INT64_MAX ? (int64_t)at : LEAT_NO_OFFSET,
                        "%s, byte %" PRIu64 ": %s: it is cut or damaged, copy it again", file->path, at, what);
}

/* ---- the directory --------------------------------------------------------------------------- */

struct ending {
    uint64_t n, bytes, at, end; /* members; the directory, and where it must end */
};

static int read_end64(struct leat_io_file *file, uint64_t end, struct ending *out, struct leat_error *error)
{
    uint8_t locator[LOCATOR], b[END64];
    if (end < LOCATOR)
        return broken(file, end, "it has no end of a zip64 directory", error);
    int rc = leat_io_read(file, end - LOCATOR, LOCATOR, locator, error);
    if (rc)
        return rc;
    const uint64_t at = leat_get_u64(locator + 8);
    if (memcmp(locator, locator_mark, 4) != 0 || at > end - LOCATOR || end - LOCATOR - at < END64)
        return broken(file, end - LOCATOR, "it has no end of a zip64 directory", error);
    if ((rc = leat_io_read(file, at, END64, b, error)))
        return rc;
    if (memcmp(b, end64_mark, 4) != 0 || leat_get_u32(b + 16) || leat_get_u32(b + 20) ||
        leat_get_u64(b + 24) != leat_get_u64(b + 32))
        return broken(file, at, "its zip64 directory has no right end, or is in several files", error);
    *out = (struct ending){leat_get_u64(b + 32), leat_get_u64(b + 40), leat_get_u64(b + 48), at};
    return LEAT_OK;
}

/* The end is the last one whose comment reaches to the end of the file. */
static int find_end(struct leat_io_file *file, struct ending *out, struct leat_error *error)
{
    const uint64_t n = file->size < END + COMMENT ? file->size : END + COMMENT, from = file->size - n;
    uint8_t *tail = leat_alloc((size_t)n + 1);
    const uint8_t *found = NULL;
    int rc = tail ? leat_io_read(file, from, n, tail, error)
                  : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", file->path);
    for (uint64_t i = n < END ? 0 : n - END + 1; !rc && !found && i-- > 0;)
        if (!memcmp(tail + i, end_mark, 4) && leat_get_u16(tail + i + 20) == n - i - END)
            found = tail + i;
    if (!rc && !found)
        rc = broken(file, file->size, "it does not end as a zip does", error);
    if (!rc) {
        const uint64_t at = from + (uint64_t)(found - tail);
        *out = (struct ending){leat_get_u16(found + 10), leat_get_u32(found + 12), leat_get_u32(found + 16), at};
        if (out->n == UINT16_MAX || out->bytes == UINT32_MAX || out->at == UINT32_MAX)
            rc = read_end64(file, at, out, error);
        else if (leat_get_u32(found + 4) || leat_get_u16(found + 8) != out->n)
            rc = broken(file, at, "it is one of several files", error);
    }
    leat_free(tail);
    return rc;
}

/* Numbers that are too large for an entry stand in its extra field 1, in this order. */
static bool read_extra64(const uint8_t *extra, size_t n, uint64_t *const wide[3])
{
    size_t needed = 0;
    for (size_t k = 0; k < 3; k++)
        needed += *wide[k] == UINT32_MAX ? 8 : 0;
    while (needed && n >= 4) {
        const size_t bytes = leat_get_u16(extra + 2);
        if (bytes > n - 4)
            return false;
        if (leat_get_u16(extra) == 1) {
            const uint8_t *p = extra + 4;
            if (bytes < needed)
                return false;
            for (size_t k = 0; k < 3; k++)
                if (*wide[k] == UINT32_MAX) {
                    *wide[k] = leat_get_u64(p);
                    p += 8;
                }
            return true;
        }
        extra += 4 + bytes;
        n -= 4 + bytes;
    }
    return !needed;
}

/* An entry of the directory, of which `n` bytes are there. NULL, or what is wrong; *used are its bytes. */
static const char *read_entry(const uint8_t *b, uint64_t n, struct leat_archive_member *m, uint64_t *used, bool *odd)
{
    *odd = false;
    if (n < ENTRY || memcmp(b, entry_mark, 4) != 0)
        return "its directory has no such entry";
    const size_t name = leat_get_u16(b + 28), extra = leat_get_u16(b + 30), comment = leat_get_u16(b + 32);
    if (n - ENTRY < name + extra + comment)
        return "an entry of its directory is longer than that";
    *used = ENTRY + name + extra + comment;
    *m = (struct leat_archive_member){.name = (const char *)b + ENTRY,
                                      .name_bytes = name,
                                      .crc = leat_get_u32(b + 16),
                                      .bytes = leat_get_u32(b + 20),
                                      .size = leat_get_u32(b + 24),
                                      .header = leat_get_u32(b + 42)};
    uint64_t *const wide[3] = {&m->size, &m->bytes, &m->header};
    if (!read_extra64(b + ENTRY + name, extra, wide))
        return "an entry of its directory lacks its zip64 sizes";
    const unsigned flags = leat_get_u16(b + 8), method = leat_get_u16(b + 10);
    m->deflated = method == DEFLATED;
    *odd = flags & 0x41 || (method != STORED && method != DEFLATED);
    if (flags & 0x41)
        return "a member is encrypted, which leat does not read";
    if (*odd)
        return "a member is compressed in a way that leat does not know; deflate is the usual one";
    uint64_t most = m->bytes;
    if (m->deflated && !leat_mul_u64(m->bytes, DEFLATE_RATIO, &most))
        most = UINT64_MAX;
    if (m->deflated ? m->size > most : m->size != m->bytes)
        return "a member has a size that its bytes cannot have";
    return NULL;
}

static int by_place(const void *a, const void *b)
{
    const struct leat_archive_member *x = *(struct leat_archive_member *const *)a,
                                     *y = *(struct leat_archive_member *const *)b;
    return x->header < y->header ? -1 : x->header > y->header;
}

static int by_name(const void *a, const void *b)
{
    const struct leat_archive_member *x = *(struct leat_archive_member *const *)a,
                                     *y = *(struct leat_archive_member *const *)b;
    const size_t n = x->name_bytes < y->name_bytes ? x->name_bytes : y->name_bytes;
    const int order = n ? memcmp(x->name, y->name, n) : 0;
    return order ? order : x->name_bytes < y->name_bytes ? -1 : x->name_bytes > y->name_bytes;
}

/* No two members have a byte, or a name, in common. */
static int check_members(const struct leat_io_file *file, const struct leat_archive *zip, struct leat_error *error)
{
    struct leat_archive_member **sorted = leat_new_array(zip->n + 1, sizeof *sorted);
    int rc = sorted ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", file->path);
    for (size_t i = 0; i < zip->n && !rc; i++)
        sorted[i] = &zip->members[i];
    if (!rc)
        qsort(sorted, zip->n, sizeof *sorted, by_place);
    for (size_t i = 0; i < zip->n && !rc; i++) {
        const struct leat_archive_member *m = sorted[i];
        const uint64_t end = i + 1 < zip->n ? sorted[i + 1]->header : zip->directory_at;
        if (m->header > end || end - m->header < LOCAL || end - m->header - LOCAL < m->name_bytes ||
            end - m->header - LOCAL - m->name_bytes < m->bytes)
            rc = broken(file, m->header, "a member reaches into what follows it", error);
    }
    if (!rc)
        qsort(sorted, zip->n, sizeof *sorted, by_name);
    for (size_t i = 1; i < zip->n && !rc; i++)
        if (!by_name(&sorted[i - 1], &sorted[i]))
            rc = broken(file, sorted[i]->header, "two members have the same name", error);
    leat_free(sorted);
    return rc;
}

static int read_entries(struct leat_io_file *file, struct leat_archive *zip, const struct ending *e,
                        struct leat_error *error)
{
    uint64_t at = 0, used = 0;
    bool odd;
    for (size_t i = 0; i < e->n; i++, at += used) {
        const char *what = read_entry(zip->directory + at, e->bytes - at, &zip->members[i], &used, &odd);
        if (what && odd)
            return leat_fail_at(error, LEAT_E_UNSUPPORTED, file->path, (int64_t)(e->at + at),
                                "%s, byte %" PRIu64 ": %s", file->path, e->at + at, what);
        if (what)
            return broken(file, e->at + at, what, error);
    }
    zip->n = (size_t)e->n;
    return at == e->bytes ? check_members(file, zip, error)
                          : broken(file, e->at + at, "its directory has more than its entries", error);
}

int leat_archive_read(struct leat_io_file *file, struct leat_archive *out, struct leat_error *error)
{
    struct ending e = {0};
    *out = (struct leat_archive){0};
    int rc = find_end(file, &e, error);
    if (rc)
        return rc;
    if (e.at > e.end || e.end - e.at != e.bytes || e.n > e.bytes / ENTRY)
        return broken(file, e.at, "its directory is not where its end says", error);
    if (e.n > LEAT_ARCHIVE_MEMBERS || e.bytes > MOST_DIRECTORY)
        return leat_fail_at(error, LEAT_E_UNSUPPORTED, file->path, LEAT_NO_OFFSET,
                            "%s has %" PRIu64 " members, and leat reads %d at most", file->path, e.n,
                            LEAT_ARCHIVE_MEMBERS);
    out->directory_at = e.at;
    out->members = leat_new_array((size_t)e.n + 1, sizeof *out->members);
    out->directory = leat_alloc((size_t)e.bytes + 1);
    rc = out->members && out->directory ? leat_io_read(file, e.at, e.bytes, out->directory, error)
                                        : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", file->path);
    rc = rc ? rc : read_entries(file, out, &e, error);
    if (rc)
        leat_archive_destroy(out);
    return rc;
}

void leat_archive_destroy(struct leat_archive *zip)
{
    leat_free(zip->members);
    leat_free(zip->directory);
    *zip = (struct leat_archive){0};
}

/* ---- a deflated member, as a file of gzip ---------------------------------------------------- */

enum { HEAD = 10, TAIL = 8 };

struct wrapped {
    struct leat_io_file file, *archive;
    uint64_t at, bytes; /* of the member in the archive */
    char *index;        /* that keeps its access points; NULL: none does */
    uint64_t inode;     /* of that */
    uint8_t head[HEAD], tail[TAIL];
    char path[];
};

/* Copies what of a request lies in `part`, which begins at `begin` of the file. */
static void copy_part(const struct leat_io_request *r, const uint8_t *part, uint64_t begin, uint64_t n)
{
    const uint64_t from = r->offset > begin ? r->offset : begin,
                   end = r->offset + r->length < begin + n ? r->offset + r->length : begin + n;
    if (from < end)
        memcpy((uint8_t *)r->buffer + (from - r->offset), part + (from - begin), (size_t)(end - from));
}

static int wrapped_submit(struct leat_io_file *file, struct leat_io_request *r)
{
    struct wrapped *w = (struct wrapped *)file;
    if (!leat_io_fits(r) || !r->length || !r->buffer)
        return LEAT_OK;
    const uint64_t body = HEAD + w->bytes, from = r->offset > HEAD ? r->offset : HEAD,
                   end = r->offset + r->length < body ? r->offset + r->length : body;
    copy_part(r, w->head, 0, HEAD);
    copy_part(r, w->tail, body, TAIL);
    if (from < end)
        r->status = leat_io_read(w->archive, w->at + (from - HEAD), end - from,
                                 (uint8_t *)r->buffer + (from - r->offset), &r->error);
    return LEAT_OK;
}

static void wrapped_forget(struct leat_io_file *file, uint64_t offset, uint64_t length)
{
    struct wrapped *w = (struct wrapped *)file;
    leat_io_forget(w->archive, w->at, w->bytes);
}

static void wrapped_close(struct leat_io_file *file)
{
    struct wrapped *w = (struct wrapped *)file;
    leat_io_release(w->archive);
    leat_free(w->index);
    leat_free(w);
}

static const struct leat_io_backend wrapped_backend = {
    .name = "zip", .submit = wrapped_submit, .forget = wrapped_forget, .close = wrapped_close};

static int wrap(struct leat_io_file *archive, const struct leat_archive_member *m, uint64_t at,
                struct leat_io_file **out, struct leat_error *error)
{
    static const uint8_t head[HEAD] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255};
    const size_t path = strlen(archive->path);
    struct wrapped *w = leat_alloc(sizeof *w + path + 1);
    if (!w)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", archive->path);
    memset(w, 0, sizeof *w);
    memcpy(w->path, archive->path, path + 1);
    memcpy(w->head, head, HEAD);
    leat_put_u32(w->tail, m->crc);
    leat_put_u32(w->tail + 4, (uint32_t)m->size);
    w->archive = leat_io_retain(archive);
    w->at = at;
    w->bytes = m->bytes;
    w->file = (struct leat_io_file){
        .backend = &wrapped_backend, .path = w->path, .size = HEAD + m->bytes + TAIL, .references = 1};
    *out = &w->file;
    return LEAT_OK;
}

static int wrong_index(void *user, uint64_t at, struct leat_error *error)
{
    const struct wrapped *w = user;
    return leat_kept_wrong(w->path, w->index, w->inode, "a member is not what its index says", w->at + at - HEAD,
                           error);
}

/* ---- opening a member ------------------------------------------------------------------------ */

struct counted {
    const struct leat_io_file *file;
    const struct leat_archive_member *m;
    const struct leat_open_options *options; /* NULL: nobody is told */
    uint64_t seen, told;
};

static int stopped(const struct leat_io_file *file, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_CANCELLED, "reading %s was stopped", file->path);
}

static int see(void *user, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    struct counted *c = user;
    if (n > c->m->size - c->seen)
        return broken(c->file, c->m->header, "a member decodes to more bytes than its directory says", error);
    c->seen += n;
    if (c->seen - c->told < TELL)
        return LEAT_OK;
    c->told = c->seen;
    const bool stop = c->options && c->options->progress && c->options->progress(c->options->user, c->seen, c->m->size);
    return stop || leat_io_interrupted() ? stopped(c->file, error) : LEAT_OK;
}

static uint64_t block_bytes(const struct leat_archive_member *m)
{
    const uint64_t share = m->size / LEAT_GZIP_POINTS + 1;
    return share > PIECE ? share : PIECE;
}

static int inflate_member(struct leat_io_file *file, const struct leat_archive_member *m, uint64_t at,
                          const struct leat_open_options *opening, struct leat_gzip_points *keep,
                          struct leat_io_file **out, struct leat_error *error)
{
    struct counted c = {.file = file, .m = m, .options = opening};
    struct leat_io_file *gzip = NULL;
    const struct leat_gzip_options options = {.sink = see, .user = &c, .block_bytes = block_bytes(m), .keep = keep};
    int rc = wrap(file, m, at, &gzip, error);
    if (rc)
        return rc;
    rc = leat_gzip_open(gzip, &options, out, error);
    leat_io_release(gzip);
    if (!rc && c.seen < m->size) {
        if (out)
            leat_io_release(*out);
        if (keep)
            leat_gzip_points_free(keep);
        rc = broken(file, m->header, "a member decodes to fewer bytes than its directory says", error);
    }
    if (rc == LEAT_E_CORRUPT)
        leat_error_at_file(error, file->path, (int64_t)m->header);
    return rc;
}

static int check_stored(struct leat_io_file *file, const struct leat_archive_member *m, uint64_t at,
                        struct leat_error *error)
{
    uint8_t *piece = leat_alloc(PIECE);
    uint32_t crc = 0;
    int rc = piece ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", file->path);
    for (uint64_t i = 0; i < m->bytes && !rc; i += PIECE) {
        const size_t n = m->bytes - i < PIECE ? (size_t)(m->bytes - i) : PIECE;
        leat_blocks_ahead(file, at + i, m->bytes - i);
        if (!(rc = leat_io_read(file, at + i, n, piece, error)))
            crc = libdeflate_crc32(crc, piece, n);
        if (!rc && leat_io_interrupted())
            rc = stopped(file, error);
    }
    leat_free(piece);
    return rc || crc == m->crc ? rc : broken(file, at, "the CRC-32 of a member is another one", error);
}

/* Where the bytes of a member begin, behind a local header that agrees with the directory. */
static int find_bytes(struct leat_io_file *file, const struct leat_archive *zip, const struct leat_archive_member *m,
                      uint64_t *at, struct leat_error *error)
{
    uint8_t b[LOCAL];
    char name[UINT16_MAX];
    int rc = leat_io_read(file, m->header, LOCAL, b, error);
    if (!rc && (memcmp(b, local_mark, 4) != 0 || leat_get_u16(b + 26) != m->name_bytes ||
                leat_get_u16(b + 8) != (m->deflated ? DEFLATED : STORED) || leat_get_u16(b + 6) & 1))
        return broken(file, m->header, "a member begins otherwise than its directory says", error);
    rc = rc ? rc : leat_io_read(file, m->header + LOCAL, m->name_bytes, name, error);
    if (rc)
        return rc;
    if (memcmp(name, m->name, m->name_bytes) != 0)
        return broken(file, m->header, "a member has another name than in the directory", error);
    *at = m->header + LOCAL + m->name_bytes + leat_get_u16(b + 28);
    uint64_t end = zip->directory_at;
    for (size_t i = 0; i < zip->n; i++)
        end = zip->members[i].header > m->header && zip->members[i].header < end ? zip->members[i].header : end;
    return *at <= end && end - *at >= m->bytes
               ? LEAT_OK
               : broken(file, m->header, "a member reaches into what follows it", error);
}

int leat_archive_open(struct leat_io_file *file, const struct leat_archive *zip, const struct leat_archive_member *m,
                      const struct leat_open_options *options, struct leat_gzip_points *keep, struct leat_io_file **out,
                      uint64_t *at, struct leat_error *error)
{
    *out = NULL;
    if (keep)
        *keep = (struct leat_gzip_points){0};
    int rc = find_bytes(file, zip, m, at, error);
    if (!rc && m->deflated) {
        rc = inflate_member(file, m, *at, options, keep, out, error);
        *at = 0;
    } else if (!rc) {
        *out = leat_io_retain(file);
    }
    if (rc)
        *out = NULL;
    return rc;
}

int leat_archive_reopen(struct leat_io_file *file, const struct leat_archive *zip, const struct leat_archive_member *m,
                        const struct leat_gzip_points *kept, const char *index, uint64_t inode,
                        struct leat_io_file **out, struct leat_error *error)
{
    uint64_t at;
    struct leat_io_file *gzip = NULL;
    *out = NULL;
    int rc = find_bytes(file, zip, m, &at, error);
    rc = rc ? rc : wrap(file, m, at, &gzip, error);
    if (rc)
        return rc;
    struct wrapped *w = (struct wrapped *)gzip;
    const struct leat_gzip_options options = {.user = w, .block_bytes = block_bytes(m), .wrong = wrong_index};
    w->inode = inode;
    rc = (w->index = leat_strdup(index)) ? leat_gzip_reopen(gzip, kept, &options, out, error)
                                         : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", file->path);
    leat_io_release(gzip);
    if (!rc && (*out)->size != m->size) {
        leat_io_release(*out);
        *out = NULL;
        rc = leat_fail(error, LEAT_E_CORRUPT, "the index of %s is that of another file", file->path);
    }
    return rc;
}

int leat_archive_first(struct leat_io_file *file, const struct leat_archive *zip, const struct leat_archive_member *m,
                       uint8_t *to, size_t n, struct leat_error *error)
{
    uint64_t at;
    struct leat_io_file *gzip = NULL;
    int rc = find_bytes(file, zip, m, &at, error);
    rc = rc ? rc : wrap(file, m, at, &gzip, error);
    rc = rc ? rc : leat_gzip_first(gzip, to, n, error);
    leat_io_release(gzip);
    if (rc == LEAT_E_CORRUPT)
        leat_error_at_file(error, file->path, (int64_t)m->header);
    return rc;
}

int leat_archive_check(struct leat_io_file *file, const struct leat_archive *zip, const struct leat_archive_member *m,
                       struct leat_error *error)
{
    uint64_t at;
    int rc = find_bytes(file, zip, m, &at, error);
    return rc            ? rc
           : m->deflated ? inflate_member(file, m, at, NULL, NULL, NULL, error)
                         : check_stored(file, m, at, error);
}
