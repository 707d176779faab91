/*
 * The index of a folder of items (items.h): made by a pass over all files, and kept.
 *
 *     of each file    size and hashes are compared, its table is read, then the heads of its items
 *     of each item    where the bodies begin, and the ends of those whose length varies
 *     of a column     how many values begin as photos do; the shapes of arrays
 *
 * Of a file without hashes that is not compressed, the pass reads little more than tables and heads.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "codec/photo/photo.h"
#include "format/items.h"
#include "io/filters.h"
#include "io/guard.h"
#include "io/zstd.h"

enum { AT, ENDS, FILES, FACTS, SHAPES, FRAMES, SUMS }; /* sections */
enum { COUNT, PARTS, KEY };                            /* facts */
enum { ITEMS_AT_ONCE = 4096, MAGIC = 8, LOWEST = 7, PHOTO_HEAD = 16, BATCHES_HEAD = 24, BATCH = 24, FRAME_HEAD = 18 };
#define KIND "ITEMS  1"
static const char batches_magic[MAGIC] = "LDFZ01", arrow_magic[MAGIC] = "LDARW01";

struct maker {
    struct leat_items *items;
    const struct leat_open_options *options;
    struct leat_error *error;
    uint64_t *at;
    uint32_t *ends;
    uint16_t *numbers; /* of the shape of each array, per item and headed column */
    size_t at_room, ends_room, numbers_room, n_headed;
    struct leat_array_shapes shapes;
    struct leat_frame *frames;
    size_t n_frames, frames_room;
    struct leat_items_kept_file *files;
    struct leat_items_fact *facts;
    struct leat_their_verifying *verifying; /* NULL: it makes an index */
    /* of the file that is read */
    struct leat_items_file *file;
    uint64_t *offsets; /* samples + 1 */
    struct leat_items_window window;
};

void leat_items_index_destroy(struct leat_items_index *x)
{
    leat_kept_release(&x->kept);
    for (size_t i = 0; i < sizeof x->own / sizeof *x->own; i++)
        leat_free(x->own[i]);
    *x = (struct leat_items_index){0};
}

/* ---- windows --------------------------------------------------------------------------------- */

int leat_items_window_get(struct leat_items_window *w, uint64_t offset, uint64_t n, const uint8_t **out,
                          struct leat_error *error)
{
    const uint64_t size = w->file->size;
    if (offset > size || n > size - offset)
        return leat_fail_at(error, LEAT_E_CORRUPT, w->file->path, (int64_t)(size < INT64_MAX ? size : 0),
                            "%s ends at byte %" PRIu64 ", where more is needed: it is cut or damaged, copy it again",
                            w->file->path, size);
    if (!w->buffer && !(w->buffer = leat_alloc(LEAT_ITEMS_WINDOW)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", w->file->path);
    if (offset < w->at || offset + n > w->at + w->n) {
        w->at = offset;
        w->n = 0;
        const uint64_t wanted = size - offset < LEAT_ITEMS_WINDOW ? size - offset : LEAT_ITEMS_WINDOW;
        const int rc = leat_io_read(w->file, offset, wanted, w->buffer, error);
        if (rc)
            return rc;
        w->n = wanted;
    }
    *out = w->buffer + (offset - w->at);
    return LEAT_OK;
}

void leat_items_window_end(struct leat_items_window *w)
{
    leat_io_release(w->file);
    leat_free(w->buffer);
    *w = (struct leat_items_window){0};
}

/* ---- one file -------------------------------------------------------------------------------- */

static int damaged(const struct maker *m, uint64_t at, const char *what)
{
    return leat_fail_at(m->error, LEAT_E_CORRUPT, m->file->is.path, at <= INT64_MAX ? (int64_t)at : LEAT_NO_OFFSET,
                        "%s, byte %" PRIu64 ": %s: it is damaged, or not the file that index.json speaks of",
                        m->file->is.path, at, what);
}

static int no_memory(const struct maker *m)
{
    return leat_fail(m->error, LEAT_E_NOMEM, "no memory to open %s", m->items->index_path);
}

static int begin_digest(const struct maker *m, const char *name, struct leat_digest **out)
{
    struct leat_error why;
    const int rc = leat_digest_begin(name, out, &why);
    if (rc == LEAT_E_NOMEM)
        return no_memory(m);
    return rc ? leat_fail_at(m->error, rc, m->items->index_path, LEAT_NO_OFFSET,
                             "%s has a hash of %s that cannot be compared: %s", m->items->index_path, m->file->is.path,
                             why.message)
              : LEAT_OK;
}

/* Compares the hashes of a file as it lies, or of its decoded bytes. */
static int check_hashes(const struct maker *m, struct leat_io_file *file, bool decoded)
{
    const struct leat_items_file *f = m->file;
    struct leat_digest **digests = leat_new_array(f->n_hashes + 1, sizeof *digests);
    struct leat_items_window w = {.file = leat_io_retain(file)};
    char text[LEAT_DIGEST_TEXT];
    const uint8_t *bytes;
    size_t n = 0;
    int rc = digests ? LEAT_OK : no_memory(m);
    for (size_t i = 0; i < f->n_hashes && !rc; i++)
        if (f->hashes[i].decoded == decoded && !(rc = begin_digest(m, f->hashes[i].name, &digests[i])))
            n++;
    for (uint64_t at = 0; n && at < file->size && !rc; at += LEAT_ITEMS_WINDOW) {
        const uint64_t part = file->size - at < LEAT_ITEMS_WINDOW ? file->size - at : LEAT_ITEMS_WINDOW;
        rc = leat_items_window_get(&w, at, part, &bytes, m->error);
        for (size_t i = 0; i < f->n_hashes && !rc; i++)
            if (digests[i])
                leat_digest_add(digests[i], bytes, (size_t)part);
    }
    for (size_t i = 0; i < f->n_hashes && digests; i++) {
        leat_digest_end(digests[i], digests[i] ? text : NULL);
        if (digests[i] && !rc && strcmp(text, f->hashes[i].text) != 0)
            rc = leat_fail_at(m->error, LEAT_E_CORRUPT, f->is.path, LEAT_NO_OFFSET,
                              "%s: %s of its %sbytes is not the one that index.json has: it is damaged, copy it again",
                              f->is.path, f->hashes[i].name, decoded ? "decoded " : "");
    }
    leat_items_window_end(&w);
    leat_free(digests);
    return rc;
}

static int add_frame(struct maker *m, uint64_t in, uint64_t out)
{
    if (!leat_grow(&m->frames, &m->frames_room, m->n_frames + 1, sizeof *m->frames))
        return no_memory(m);
    m->frames[m->n_frames++] = (struct leat_frame){in, out};
    return LEAT_OK;
}

/* Reads `n` + 1 offsets at `from`, which ascend, and lie in [least, most]. */
static int read_offsets(struct maker *m, uint64_t from, uint64_t least, uint64_t most)
{
    const uint64_t n = m->file->samples;
    const uint8_t *p = NULL;
    uint64_t before = least;
    if (n > UINT32_MAX || m->window.file->size < from || (m->window.file->size - from) / 4 < n + 1)
        return damaged(m, 0, "it is shorter than the table of its samples");
    if (!(m->offsets = leat_new_array((size_t)n + 1, sizeof *m->offsets)))
        return no_memory(m);
    for (uint64_t i = 0; i <= n; i++) {
        const int rc = leat_items_window_get(&m->window, from + 4 * i, 4, &p, m->error);
        if (rc)
            return rc;
        m->offsets[i] = leat_get_u32(p);
        if (m->offsets[i] < before || m->offsets[i] > most)
            return damaged(m, from + 4 * i, "a sample begins before the end of the one in front, or behind the end");
        before = m->offsets[i];
    }
    return LEAT_OK;
}

static int check_count(struct maker *m, uint64_t at)
{
    const uint8_t *p = NULL;
    const int rc = leat_items_window_get(&m->window, at, 4, &p, m->error);
    return rc || leat_get_u32(p) == m->file->samples ? rc : damaged(m, at, "it has another number of samples");
}

/* The table at the head of a file, or of its decoded bytes. */
static int read_table(struct maker *m)
{
    const uint64_t n = m->file->samples, size = m->window.file->size;
    const uint8_t *p = NULL;
    int rc = check_count(m, 0);
    if (!rc && m->items->ends_known && size >= MAGIC &&
        !(rc = leat_items_window_get(&m->window, size - MAGIC, MAGIC, &p, m->error)) && !memcmp(p, arrow_magic, MAGIC))
        return leat_fail_at(m->error, LEAT_E_UNSUPPORTED, m->file->is.path, LEAT_NO_OFFSET,
                            "%s has its samples in an Arrow footer, as LitData writes nested ones: leat does not read "
                            "that; write them with flat values",
                            m->file->is.path);
    rc = rc ? rc : read_offsets(m, 4, 8 + 4 * n, size);
    return rc || m->offsets[n] == size ? rc : damaged(m, m->offsets[n], "there are bytes behind the last sample");
}

/* The frames of items that are compressed one by one; their offsets become those of the decoded bytes. */
static int read_single(struct maker *m)
{
    const uint64_t size = m->window.file->size;
    uint64_t out = 0;
    const uint8_t *p = NULL;
    int rc = read_table(m);
    for (uint64_t i = 0; i < m->file->samples && !rc; i++) {
        const uint64_t at = m->offsets[i], left = size - at < FRAME_HEAD ? size - at : FRAME_HEAD;
        uint64_t bytes = 0;
        rc = leat_items_window_get(&m->window, at, left, &p, m->error);
        if (!rc && (!leat_zstd_decoded_bytes(p, (size_t)left, &bytes) || bytes > LEAT_ITEMS_DECODED))
            return damaged(m, at, "a sample is no frame of zstd that says its size, or one above 384 MiB");
        rc = rc ? rc : add_frame(m, at, out);
        m->offsets[i] = out;
        out += bytes;
    }
    if (rc)
        return rc;
    m->offsets[m->file->samples] = out;
    return add_frame(m, size, out);
}

/* "LDFZ01": u16 version | u16 flags | u32 items | u32 of a frame | u32 frames | offsets | frames: u32 first | u32 items
 * | u64 at | u32 bytes | u32 decoded | ... */
static int read_batches(struct maker *m)
{
    const uint64_t size = m->window.file->size, n = m->file->samples;
    const uint8_t *p = NULL;
    uint64_t item = 0, at = 0, out = 0;
    int rc = leat_items_window_get(&m->window, 0, BATCHES_HEAD, &p, m->error);
    if (rc)
        return rc;
    if (memcmp(p, batches_magic, MAGIC) != 0 || leat_get_u16(p + MAGIC) != 1)
        return damaged(m, 0, "it does not begin with LDFZ01 and version 1");
    if (leat_get_u32(p + 12) != n)
        return damaged(m, 12, "it has another number of samples");
    const uint64_t n_frames = leat_get_u32(p + 20), table = BATCHES_HEAD + 4 * (n + 1);
    if ((rc = read_offsets(m, BATCHES_HEAD, 0, UINT32_MAX)))
        return rc;
    if (m->offsets[0] || table > size || (size - table) / BATCH < n_frames)
        return damaged(m, table, "it is shorter than the table of its frames");
    for (uint64_t i = 0; i < n_frames && !rc; i++) {
        const uint64_t here = table + BATCH * i;
        if ((rc = leat_items_window_get(&m->window, here, BATCH, &p, m->error)))
            break;
        const uint64_t first = leat_get_u32(p), items = leat_get_u32(p + 4), from = leat_get_u64(p + 8),
                       bytes = leat_get_u32(p + 16), decoded = leat_get_u32(p + 20);
        if (first != item || !items || items > n - item || (i ? from != at : from < table + BATCH * n_frames) ||
            from > size || bytes > size - from || decoded != m->offsets[item + items] - m->offsets[item] ||
            decoded > LEAT_ITEMS_DECODED)
            return damaged(m, here, "a frame of it lies elsewhere than its table says, or has other samples");
        rc = add_frame(m, from, out);
        item += items;
        at = from + bytes;
        out += decoded;
    }
    if (!rc && item != n)
        return damaged(m, table, "its frames have fewer samples than it has");
    return rc ? rc : add_frame(m, at, out);
}

/* ---- decoded bytes --------------------------------------------------------------------------- */

static int undo(enum leat_stored_filter_kind kind, struct leat_io_file *file, uint64_t at, const uint8_t *bytes,
                size_t n, uint8_t *to, size_t room, struct leat_error *error)
{
    const struct leat_stored_filter filter = {.kind = kind};
    const char *what;
    const int rc = leat_filters_undo(&filter, 1, 0, bytes, n, to, room, &what);
    return rc == LEAT_E_DECODE ? leat_io_damaged(file, at, what, error)
           : rc                ? leat_fail(error, rc, "no memory to decode %s", file->path)
                               : LEAT_OK;
}
#define DECODER(name, KIND)                                                                                            \
    static int un##name(struct leat_io_file *file, uint64_t at, const uint8_t *bytes, size_t n, uint8_t *to,           \
                        size_t room, struct leat_error *error)                                                         \
    {                                                                                                                  \
        return undo(LEAT_FILTER_##KIND, file, at, bytes, n, to, room, error);                                          \
    }
DECODER(zstd, ZSTD)
DECODER(gzip, GZIP)
DECODER(bzip2, BZIP2)
DECODER(brotli, BROTLI)
DECODER(snappy, SNAPPY)

int leat_items_open_frames(const struct leat_items_file *f, struct leat_io_file *stored,
                           const struct leat_frame *frames, uint64_t n, struct leat_io_file **out,
                           struct leat_error *error)
{
    const leat_frame_decoder decode = f->filter == LEAT_FILTER_ZSTD     ? unzstd
                                      : f->filter == LEAT_FILTER_GZIP   ? ungzip
                                      : f->filter == LEAT_FILTER_BZIP2  ? unbzip2
                                      : f->filter == LEAT_FILTER_BROTLI ? unbrotli
                                                                        : unsnappy;
    if (!n)
        return leat_io_from_memory(f->is.path, "", 0, out, error);
    return leat_frames_open(stored, frames, (size_t)n, decode, out, error);
}

/* The decoded bytes of a file that is one frame: as index.json says, but for a table that it has not counted. */
static int decoded_bytes(struct maker *m, uint64_t *out)
{
    const uint64_t size = m->window.file->size, head = size < FRAME_HEAD ? size : FRAME_HEAD;
    const uint8_t *p = NULL;
    uint64_t bytes;
    *out = m->file->decoded;
    if (!m->file->uncounted)
        return LEAT_OK;
    const int rc = leat_items_window_get(&m->window, 0, head, &p, m->error);
    if (!rc && leat_zstd_decoded_bytes(p, (size_t)head, &bytes) && bytes == *out + m->file->uncounted)
        *out = bytes;
    return rc;
}

/* Reads all decoded bytes of the file in the window, which compares the checksums that its frames have, and notes
 * whether they have some. Bytes with a hash need none. */
static int read_through(struct maker *m, struct leat_io_file *stored, const struct leat_items_kept_file *kept)
{
    const struct leat_frame *frames = m->frames + kept->frame;
    const uint64_t size = m->window.file->size;
    const uint8_t *bytes;
    int rc = LEAT_OK;
    for (uint64_t at = 0; at < size && !rc; at += LEAT_ITEMS_WINDOW)
        rc = leat_items_window_get(&m->window, at, size - at < LEAT_ITEMS_WINDOW ? size - at : LEAT_ITEMS_WINDOW,
                                   &bytes, m->error);
    if (rc)
        return rc;
    if (m->file->n_hashes || m->file->filter == LEAT_FILTER_GZIP || m->file->filter == LEAT_FILTER_BZIP2)
        m->verifying->summed = true;
    else if (m->file->filter == LEAT_FILTER_ZSTD)
        rc = leat_zstd_look_for_sums(stored, frames[0].in, frames[kept->n_frames].in, &m->verifying->summed,
                                     &m->verifying->unsummed, m->error);
    else
        m->verifying->unsummed = true;
    return rc;
}

/* Finds frames and offsets of the file in the window, whose file is then that of the decoded bytes. */
static int begin_file(struct maker *m, struct leat_items_kept_file *kept)
{
    struct leat_items_file *f = m->file;
    struct leat_io_file *stored = m->window.file, *decoded = NULL;
    kept->frame = m->n_frames;
    uint64_t bytes = 0;
    int rc = check_hashes(m, stored, false);
    if (!rc && f->packing == LEAT_ITEMS_WHOLE) {
        rc = decoded_bytes(m, &bytes);
        if (!rc && (bytes > LEAT_ITEMS_DECODED || stored->size > LEAT_ITEMS_DECODED))
            return damaged(m, 0, "it has more than 384 MiB, which leat does not decode at once");
        rc = rc ? rc : add_frame(m, 0, 0);
        rc = rc ? rc : add_frame(m, stored->size, bytes);
    } else if (!rc && f->packing) {
        rc = f->packing == LEAT_ITEMS_SINGLE ? read_single(m) : read_batches(m);
    }
    if (!rc && f->packing) {
        kept->n_frames = m->n_frames - kept->frame - 1;
        rc = leat_items_open_frames(f, stored, m->frames + kept->frame, kept->n_frames, &decoded, m->error);
        if (rc)
            return rc;
        m->window.file = decoded;
        m->window.n = 0;
        rc = check_hashes(m, decoded, true);
        rc = rc || !m->verifying ? rc : read_through(m, stored, kept);
        leat_io_release(stored);
    }
    kept->decoded = m->window.file->size;
    return rc || m->offsets || m->items->stride ? rc : read_table(m);
}

/* ---- items ----------------------------------------------------------------------------------- */

/* What the body of a column, `length` bytes at `at`, says of the column; *header: bytes of its header. */
static int look(struct maker *m, size_t column, uint64_t at, uint64_t length, uint16_t *number, uint64_t *header)
{
    const struct leat_item_column *c = &m->items->columns[column];
    const bool array = c->form == LEAT_ITEM_ARRAY || leat_item_is_headed(c);
    const uint64_t wanted = array ? LEAT_ITEM_HEADER : PHOTO_HEAD, there = length < wanted ? length : wanted;
    struct leat_array_shape shape = {.column = (uint32_t)column};
    const uint8_t *p = NULL;
    uint64_t first;
    size_t found = SIZE_MAX;
    *header = 0;
    *number = UINT16_MAX;
    if (!array && (c->form != LEAT_ITEM_BYTES || c->type.kind))
        return LEAT_OK;
    const int rc = leat_items_window_get(&m->window, at, there, &p, m->error);
    if (rc)
        return rc;
    if (!array) {
        m->facts[column].photos += leat_photo_begins(p, (size_t)there);
        return LEAT_OK;
    }
    if (leat_item_array(c, p, there, length, &shape, &first, header))
        return LEAT_OK;
    if (!leat_array_shapes_add(&m->shapes, &shape, first, &found))
        return no_memory(m);
    *number = found == SIZE_MAX ? UINT16_MAX : (uint16_t)found;
    return LEAT_OK;
}

static int read_item(struct maker *m, uint64_t item, uint64_t begin, uint64_t end)
{
    const struct leat_items *t = m->items;
    uint32_t sizes[LEAT_ITEM_COLUMNS], *ends = m->ends + item * t->index.parts;
    uint16_t *numbers = m->numbers + item * m->n_headed, number;
    const uint64_t head = 4 * t->n_sized, bodies = begin + head;
    const uint8_t *p = NULL;
    uint64_t used = 0, header;
    if (end - begin < head)
        return damaged(m, begin, "a sample is shorter than the sizes of its columns");
    int rc = leat_items_window_get(&m->window, begin, head, &p, m->error);
    if (rc)
        return rc;
    memcpy(sizes, p, (size_t)head);
    m->at[item] = bodies;
    for (size_t k = 0, sized = 0; k < t->n_columns; k++) {
        const struct leat_item_column *c = &t->columns[k];
        const uint64_t length = c->sized ? sizes[sized++] : c->fixed;
        if ((c->fixed && length != c->fixed) || length > end - bodies - used)
            return damaged(m, begin, "the sizes of the columns of a sample are not those of its bytes");
        if (!c->fixed) {
            if ((rc = look(m, k, bodies + used, length, &number, &header)))
                return rc;
            if (leat_item_is_headed(c)) {
                *ends++ = (uint32_t)(used + header);
                *numbers++ = number;
            }
            *ends++ = (uint32_t)(used + length);
        }
        m->facts[k].lowest |= c->fixed ? (bodies + used) & LOWEST : 0;
        used += length;
    }
    return used == end - bodies ? LEAT_OK
                                : damaged(m, begin, "the sizes of the columns of a sample are not those of its bytes");
}

static int read_items(struct maker *m)
{
    struct leat_items *t = m->items;
    const uint64_t n = m->file->samples, count = t->index.count;
    if (!leat_grow(&m->at, &m->at_room, (size_t)(count + n) + 1, sizeof *m->at) ||
        !leat_grow(&m->ends, &m->ends_room, (size_t)((count + n) * t->index.parts) + 1, sizeof *m->ends) ||
        !leat_grow(&m->numbers, &m->numbers_room, (size_t)((count + n) * m->n_headed) + 1, sizeof *m->numbers))
        return no_memory(m);
    int rc = LEAT_OK;
    for (uint64_t i = 0; i < n && !rc; i++) {
        rc = read_item(m, count + i, m->offsets[i], m->offsets[i + 1]);
        if (!rc && m->options->progress && i % ITEMS_AT_ONCE == 0 &&
            m->options->progress(m->options->user, count + i, t->source.count))
            rc = leat_fail(m->error, LEAT_E_CANCELLED, "reading %s was stopped", t->index_path);
    }
    t->index.count += rc ? 0 : n;
    return rc;
}

/* Rows lie one behind the other, as many as fit into what the file has. */
static int check_rows(struct maker *m)
{
    const struct leat_items *t = m->items;
    const struct leat_items_file *f = m->file;
    const uint64_t size = m->window.file->size;
    const uint8_t *p = NULL;
    int rc = leat_items_window_get(&m->window, 0, 4, &p, m->error);
    if (!rc && 4 * ((uint64_t)leat_get_u32(p) + 2) != f->base)
        rc = damaged(m, 0, "it has another number of samples");
    m->facts[0].lowest |= (f->base | t->stride) & LOWEST;
    return rc || (f->base <= size && f->samples <= (size - f->base) / t->stride)
               ? rc
               : damaged(m, size, "it is shorter than its tokens");
}

static int read_file(struct maker *m, size_t number, struct leat_items_kept_file *kept)
{
    m->file = &m->items->files[number];
    *kept = (struct leat_items_kept_file){.size = m->file->is.size, .mtime_ns = m->file->is.mtime_ns};
    int rc = leat_io_open(m->file->is.path, &m->window.file, m->error);
    m->window.n = 0;
    rc = rc ? rc : begin_file(m, kept);
    if (!rc)
        rc = m->items->stride ? check_rows(m) : read_items(m);
    leat_io_release(m->window.file);
    m->window.file = NULL;
    leat_free(m->offsets);
    m->offsets = NULL;
    return rc;
}

/* Arrays of another shape than most of their column are marked: their headers have no bytes. */
static void leave_out_others(struct maker *m)
{
    struct leat_items *t = m->items;
    for (size_t k = 0, headed = 0; k < t->n_columns; k++) {
        const struct leat_item_column *c = &t->columns[k];
        if (!leat_item_is_headed(c))
            continue;
        const size_t best = leat_array_shapes_best(m->shapes.at, m->shapes.n, (uint32_t)k);
        for (uint64_t i = 0; i < t->index.count; i++) {
            uint32_t *ends = m->ends + i * t->index.parts;
            if (m->numbers[i * m->n_headed + headed] != best)
                ends[c->part] = (c->part ? ends[c->part - 1] : 0) + (uint32_t)c->skip;
        }
        headed++;
    }
}

static bool begin(struct maker *m)
{
    for (size_t k = 0; k < m->items->n_columns; k++)
        m->n_headed += leat_item_is_headed(&m->items->columns[k]);
    m->facts = leat_new_array(m->items->n_columns + 1, sizeof *m->facts);
    return m->facts;
}

static int make(struct maker *m)
{
    struct leat_items *t = m->items;
    struct leat_items_index *x = &t->index;
    int rc = LEAT_OK;
    m->files = leat_new_array(t->n_files + 1, sizeof *m->files);
    if (!m->files || !begin(m))
        rc = no_memory(m);
    for (size_t i = 0; i < t->n_files && !rc; i++)
        rc = read_file(m, i, &m->files[i]);
    leat_items_window_end(&m->window);
    if (!rc && x->count)
        leave_out_others(m);
    leat_free(m->numbers);
    x->at = x->own[0] = m->at;
    x->ends = x->own[1] = m->ends;
    x->files = x->own[2] = m->files;
    x->facts = x->own[3] = m->facts;
    x->shapes = x->own[4] = m->shapes.at;
    x->frames = x->own[5] = m->frames;
    x->n_files = t->n_files;
    x->n_facts = t->n_columns;
    x->n_shapes = m->shapes.n;
    x->n_frames = m->n_frames;
    return rc;
}

/* ---- verifying ------------------------------------------------------------------------------- */

/* Makes the pass over one file, of which nothing is kept. */
static int verify_file(struct leat_source *source, size_t number, struct leat_their_verifying *verifying,
                       struct leat_error *error)
{
    struct leat_items *t = (struct leat_items *)source;
    const struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    struct maker m = {.items = t, .options = &options, .error = error, .verifying = verifying};
    struct leat_items_kept_file kept;
    int rc = leat_items_look_at(t, &t->files[number], false, error);
    if (!rc)
        rc = begin(&m) ? read_file(&m, number, &kept) : no_memory(&m);
    leat_items_window_end(&m.window);
    leat_free(m.at);
    leat_free(m.ends);
    leat_free(m.numbers);
    leat_free(m.shapes.at);
    leat_free(m.frames);
    leat_free(m.facts);
    t->index.count = 0;
    return rc;
}

int leat_items_verify(struct leat_source *source, const struct leat_verify_options *options, uint64_t first_id,
                      struct leat_error *error)
{
    const struct leat_items *t = (const struct leat_items *)source;
    for (size_t i = 0; i < t->n_files; i++)
        if (!t->files[i].n_hashes && !t->files[i].packing)
            return leat_source_fail_unsummed(source, t->files[i].is.path, error);
    return leat_their_files_verify(&t->all, source, options, first_id, verify_file, error);
}

/* ---- kept ------------------------------------------------------------------------------------ */

static struct leat_kept sections(void)
{
    return (struct leat_kept){.sections = {[AT] = {.each = sizeof(uint64_t)},
                                           [ENDS] = {.each = sizeof(uint32_t)},
                                           [FILES] = {.each = sizeof(struct leat_items_kept_file)},
                                           [FACTS] = {.each = sizeof(struct leat_items_fact)},
                                           [SHAPES] = {.each = sizeof(struct leat_array_shape)},
                                           [FRAMES] = {.each = sizeof(struct leat_frame)},
                                           [SUMS] = {.each = sizeof(struct leat_items_sum)}}};
}

/* What is small is copied, so that it is read without a guard. */
static bool copy_small(struct leat_items_index *x)
{
    const void **parts[] = {(const void **)&x->files, (const void **)&x->facts, (const void **)&x->shapes,
                            (const void **)&x->frames};
    uint64_t *const counts[] = {&x->n_files, &x->n_facts, &x->n_shapes, &x->n_frames};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const struct leat_kept_section *s = &x->kept.sections[FILES + i];
        const size_t bytes = (size_t)(s->count * s->each);
        if (!(x->own[2 + i] = leat_alloc(bytes + 1)) ||
            leat_guarded_copy(x->own[2 + i], bytes ? s->data : "", bytes, NULL))
            return false;
        *parts[i] = x->own[2 + i];
        *counts[i] = s->count;
    }
    const struct leat_kept_section *s = &x->kept.sections[SUMS];
    x->n_sums = s->count < LEAT_ITEMS_SUMS ? s->count : LEAT_ITEMS_SUMS;
    return !leat_guarded_copy(x->sums, x->n_sums ? s->data : "", (size_t)x->n_sums * sizeof *x->sums, NULL);
}

static bool files_fit(const struct leat_items *t)
{
    const struct leat_items_index *x = &t->index;
    for (size_t i = 0; i < t->n_files; i++) {
        const struct leat_items_kept_file *k = &x->files[i];
        const uint64_t frames = k->n_frames + (t->files[i].packing != LEAT_ITEMS_PLAIN);
        if (k->size != t->files[i].is.size || k->mtime_ns != t->files[i].is.mtime_ns || k->frame > x->n_frames ||
            frames < k->n_frames || frames > x->n_frames - k->frame)
            return false;
        for (uint64_t n = 0; n < k->n_frames; n++) {
            const struct leat_frame *f = &x->frames[k->frame + n];
            if (f[0].in > f[1].in || f[0].out > f[1].out || f[1].out - f[0].out > LEAT_ITEMS_DECODED ||
                f[1].in > k->size)
                return false;
        }
    }
    return true;
}

static bool shapes_fit(const struct leat_items *t)
{
    for (uint64_t i = 0; i < t->index.n_shapes; i++) {
        const struct leat_array_shape *s = &t->index.shapes[i];
        uint64_t bytes = leat_dtype_size((enum leat_dtype)s->dtype);
        bool good = bytes && s->ndim <= LEAT_MAX_DIMS && s->column < t->n_columns && s->least <= s->most &&
                    s->most <= INT64_MAX;
        for (unsigned d = 1; good && d < s->ndim; d++)
            good = s->shape[d] && s->shape[d] <= INT64_MAX && leat_mul_u64(bytes, s->shape[d], &bytes);
        if (!good || !leat_mul_u64(bytes, s->most, &bytes) || bytes > INT64_MAX)
            return false;
    }
    return true;
}

static bool load(struct leat_items *t, const char *path, struct leat_io_file *source)
{
    struct leat_items_index *x = &t->index;
    const uint64_t parts = x->parts, count = t->stride ? 0 : t->source.count;
    struct leat_kept k = sections();
    if (!leat_kept_load(&k, path, source, KIND, false))
        return false;
    *x = (struct leat_items_index){.count = k.facts[COUNT],
                                   .parts = k.facts[PARTS],
                                   .at = k.sections[AT].data,
                                   .ends = k.sections[ENDS].data,
                                   .kept = k};
    uint64_t n;
    const bool good = k.facts[KEY] == t->key && x->count == count && x->parts == parts &&
                      k.sections[AT].count == count && leat_mul_u64(count, parts, &n) && k.sections[ENDS].count == n &&
                      k.sections[FILES].count == t->n_files && k.sections[FACTS].count == t->n_columns &&
                      copy_small(x) && files_fit(t) && shapes_fit(t);
    if (!good) {
        leat_items_index_destroy(x);
        x->parts = parts;
    }
    return good;
}

void leat_items_save_index(struct leat_items *t, const struct leat_open_options *options)
{
    const struct leat_items_index *x = &t->index;
    struct leat_io_file *source;
    struct leat_kept k = sections();
    char place[4096];
    if (!leat_kept_path(t->index_path, options->index_dir, place, sizeof place) ||
        leat_io_open(t->index_path, &source, NULL))
        return;
    if (options->index_dir)
        mkdir(options->index_dir, 0777);
    k.facts[COUNT] = x->count;
    k.facts[PARTS] = x->parts;
    k.facts[KEY] = t->key;
    k.sections[AT].data = x->at;
    k.sections[AT].count = x->count;
    k.sections[ENDS].data = x->ends;
    k.sections[ENDS].count = x->count * x->parts;
    k.sections[FILES].data = x->files;
    k.sections[FILES].count = x->n_files;
    k.sections[FACTS].data = x->facts;
    k.sections[FACTS].count = x->n_facts;
    k.sections[SHAPES].data = x->shapes;
    k.sections[SHAPES].count = x->n_shapes;
    k.sections[FRAMES].data = x->frames;
    k.sections[FRAMES].count = x->n_frames;
    k.sections[SUMS].data = x->sums;
    k.sections[SUMS].count = x->n_sums;
    leat_kept_save(&k, place, source, KIND);
    leat_free(k.path);
    leat_io_release(source);
}

int leat_items_find_index(struct leat_items *t, const struct leat_open_options *options, struct leat_error *error)
{
    struct leat_io_file *source = NULL;
    char place[4096];
    if (leat_kept_path(t->index_path, options->index_dir, place, sizeof place)) {
        int rc = leat_io_open(t->index_path, &source, error);
        const bool found = !rc && load(t, place, source);
        leat_io_release(source);
        if (rc || found)
            return rc;
    }
    struct maker m = {.items = t, .options = options, .error = error};
    return make(&m);
}
