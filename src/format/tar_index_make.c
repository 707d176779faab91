/*
 * Making the index of a tar (tar_index.h): a pass over its headers. Of a plain file, what nobody needs is not read: it
 * goes from header to header, in steps that grow while the files are small.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/unicode.h"
#include "codec/photo/photo.h"
#include "format/json_text.h"
#include "format/tar_index.h"
#include "format/tar_scan.h"

/* Bytes of a body that tell its form, and that a number has at most. */
enum { HEAD = 64, STEP = 4 << 10, LONGEST_STEP = 1 << 20, TELL = 16 << 20, SHAPES = 1024 };
/* An array is hashed in pieces behind its header. */
enum { NPY_HEAD = LEAT_NPY_HEADER };

struct maker {
    const struct leat_tar_making *asked;
    const char *path;
    struct leat_tar_index *index;
    struct leat_tar_sample *samples;
    struct leat_tar_member *members;
    char *keys, *text;
    struct leat_tar_ending *endings;
    struct leat_tar_shape *shapes;
    size_t samples_room, members_room, keys_room, text_room, endings_room, shapes_room;
    uint64_t keys_n, text_n;
    /* the file that is being read */
    bool leaves_out, is_array, apart; /* `apart`: a tar has ended since the last sample */
    uint64_t header;
    struct leat_tar_member member;
    uint8_t head[NPY_HEAD];
    size_t n_head, head_wanted;
    struct leat_npy npy;
    const char *fault; /* of the array */
    bool has_header;
    struct leat_hash_pieces hash;
    struct leat_tar_scan *scan;
    uint64_t done, told;
};

static int no_memory(const struct maker *m, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory for the index of %s", m->path);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Whether WebDataset passes over a name: its first part is __something__. */
static bool is_about_the_tar(const char *name)
{
    const size_t n = strcspn(name, "/");
    return n >= 4 && !strncmp(name, "__", 2) && !strncmp(name + n - 2, "__", 2);
}

static const char *base_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

/* Bytes of the key; 0: the file is left out. */
static size_t key_of(struct maker *m, const char *name)
{
    const char *base = base_of(name), *dot = strchr(base, '.');
    if (is_about_the_tar(name))
        return 0;
    m->index->hidden += dot == base;
    m->index->bare += !dot;
    return dot && dot != base ? (size_t)(dot - name) : 0;
}

static void link_to(void *user, const char *name)
{
    const char *base = base_of(name), *dot = strchr(base, '.');
    ((struct maker *)user)->index->links += dot && dot != base && !is_about_the_tar(name);
}

static int fail_name(const struct maker *m, const struct leat_tar_found *f, int code, const char *what,
                     struct leat_error *error)
{
    return leat_fail_at(error, code, m->path, (int64_t)f->header, "%s: the file %.200s at byte %" PRIu64 " %s", m->path,
                        f->name, f->header, what);
}

static int find_ending(struct maker *m, const struct leat_tar_found *f, const char *ending, size_t *out,
                       struct leat_error *error)
{
    char small[LEAT_TAR_KEY];
    const size_t n = strlen(ending), total = (size_t)m->index->n_endings;
    if (n >= sizeof small)
        return fail_name(m, f, LEAT_E_CORRUPT, "has a name that is too long", error);
    for (size_t i = 0; i <= n; i++)
        small[i] = ending[i] >= 'A' && ending[i] <= 'Z' ? (char)(ending[i] + 32) : ending[i];
    const size_t last = m->index->n_members ? leat_tar_ending_of(&m->members[m->index->n_members - 1]) + 1 : 0;
    for (size_t k = 0; k < total; k++) { /* mostly they come in the same order again */
        *out = (last + k) % total;
        if (!strcmp(m->text + m->endings[*out].text, small))
            return LEAT_OK;
    }
    if (total == LEAT_TAR_ENDINGS)
        return leat_fail_at(error, LEAT_E_FORMAT, m->path, (int64_t)f->header,
                            "%s is no tar of samples: its files have more than %d different endings, such as %.100s of "
                            "%.200s. The key of a sample ends at the first dot of a file's name",
                            m->path, LEAT_TAR_ENDINGS, small, f->name);
    if (!leat_grow(&m->endings, &m->endings_room, total + 1, sizeof *m->endings) ||
        !leat_grow(&m->text, &m->text_room, (size_t)m->text_n + n + 1, 1))
        return no_memory(m, error);
    m->endings[total] = (struct leat_tar_ending){.text = m->text_n};
    memcpy(m->text + m->text_n, small, n + 1);
    m->text_n += n + 1;
    *out = total;
    m->index->n_endings++;
    return LEAT_OK;
}

/* Finds or begins the sample of a key. */
static int find_sample(struct maker *m, const struct leat_tar_found *f, size_t n, struct leat_error *error)
{
    struct leat_tar_index *x = m->index;
    m->apart = m->apart || f->apart;
    if (x->count && !m->apart) {
        const char *key = m->keys + m->samples[x->count - 1].key;
        if (!strncmp(key, f->name, n) && !key[n])
            return LEAT_OK;
    }
    if (n >= LEAT_TAR_KEY || leat_utf8_check(f->name, n) != n)
        return fail_name(
            m, f, LEAT_E_CORRUPT,
            n >= LEAT_TAR_KEY ? "has a name that is too long" : "has a name that is not UTF-8: pack it anew", error);
    if (!leat_grow(&m->samples, &m->samples_room, (size_t)x->count + 2, sizeof *m->samples) ||
        !leat_grow(&m->keys, &m->keys_room, (size_t)m->keys_n + n + 1, 1))
        return no_memory(m, error);
    m->apart = false;
    m->samples[x->count++] = (struct leat_tar_sample){m->keys_n, x->n_members};
    memcpy(m->keys + m->keys_n, f->name, n);
    m->keys[m->keys_n + n] = 0;
    m->keys_n += n + 1;
    return LEAT_OK;
}

/* ---- one file -------------------------------------------------------------------------------- */

static bool ends_in(const char *text, const char *end)
{
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end) && (n == k || text[n - k - 1] == '.');
}

static int begin(void *user, const struct leat_tar_found *f, uint64_t *wanted, struct leat_error *error)
{
    struct maker *m = user;
    size_t ending = 0;
    const size_t n = key_of(m, f->name);
    *wanted = 0;
    if ((m->leaves_out = !n))
        return LEAT_OK;
    int rc = find_sample(m, f, n, error);
    rc = rc ? rc : find_ending(m, f, f->name + n + 1, &ending, error);
    for (uint64_t i = rc ? 0 : m->samples[m->index->count - 1].member; !rc && i < m->index->n_members; i++)
        if (leat_tar_ending_of(&m->members[i]) == ending)
            rc = fail_name(m, f, LEAT_E_CORRUPT, "stands twice in its sample", error);
    if (!rc && !leat_grow(&m->members, &m->members_room, (size_t)m->index->n_members + 1, sizeof *m->members))
        rc = no_memory(m, error);
    if (rc)
        return rc;
    m->member = (struct leat_tar_member){.place = f->at / 512 << 16 | ending, .facts = f->size << 16};
    m->header = f->header;
    m->n_head = 0;
    m->has_header = false;
    m->fault = NULL;
    m->is_array = ends_in(m->text + m->endings[ending].text, "npy");
    m->head_wanted = m->is_array ? NPY_HEAD : HEAD;
    *wanted = m->is_array || f->size < HEAD ? f->size : HEAD;
    return LEAT_OK;
}

/* Reads the header of an array once all of it may be there; what follows it is hashed. */
static void begin_array(struct maker *m)
{
    m->has_header = true;
    m->fault = leat_npy_read(m->head, m->n_head, &m->npy);
    leat_hash_begin(&m->hash);
    if (!m->fault)
        leat_hash_add(&m->hash, m->head + m->npy.header, m->n_head - (size_t)m->npy.header);
}

static int body(void *user, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    struct maker *m = user;
    const size_t room = m->head_wanted - m->n_head, k = n < room ? n : room;
    memcpy(m->head + m->n_head, bytes, k);
    m->n_head += k;
    if (!m->is_array || m->n_head < m->head_wanted)
        return LEAT_OK;
    if (!m->has_header)
        begin_array(m);
    if (!m->fault && n > k)
        leat_hash_add(&m->hash, bytes + k, n - k);
    return LEAT_OK;
}

/* Text of a whole number, with white space around it. */
static bool read_integer(const uint8_t *p, size_t n, int64_t *out)
{
    struct leat_number number;
    while (n && strchr(" \t\r\n\f\v", *p) && *p)
        p++, n--;
    while (n && strchr(" \t\r\n\f\v", p[n - 1]) && p[n - 1])
        n--;
    if (!n || leat_number_read((const char *)p, n, LEAT_NUMBER_TEXT, &number) != n || !number.is_whole)
        return false;
    *out = number.whole;
    return true;
}

/* The number of the shape of an array among those of its ending; SHAPES: there are too many. */
static int find_shape(struct maker *m, size_t ending, size_t *out, struct leat_error *error)
{
    struct leat_tar_shape new = {.ending = (uint32_t)ending,
                                 .dtype = m->npy.dtype,
                                 .ndim = m->npy.ndim,
                                 .order = (m->npy.fortran && m->npy.ndim > 1 ? 1u : 0) | (m->npy.swapped ? 2u : 0)};
    const uint64_t first = m->npy.ndim ? m->npy.shape[0] : 0;
    size_t n = (size_t)m->index->n_shapes;
    for (unsigned d = 1; d < new.ndim; d++)
        new.shape[d] = m->npy.shape[d];
    *out = 0;
    while (*out < n && memcmp(&m->shapes[*out], &new, offsetof(struct leat_tar_shape, n)) != 0)
        ++*out;
    if (*out == n) {
        *out = SHAPES;
        if (n == SHAPES)
            return LEAT_OK;
        if (!leat_grow(&m->shapes, &m->shapes_room, n + 1, sizeof new))
            return no_memory(m, error);
        new.least = new.most = first;
        m->shapes[ *out = n] = new;
        m->index->n_shapes++;
    }
    struct leat_tar_shape *s = &m->shapes[*out];
    s->n++;
    s->least = first < s->least ? first : s->least;
    s->most = first > s->most ? first : s->most;
    return LEAT_OK;
}

static bool swells(const struct maker *m)
{
    const struct leat_tar_index *x = m->index;
    const uint64_t bytes = x->count * sizeof *m->samples + x->n_members * sizeof *m->members + m->keys_n;
    return m->asked->compression && leat_compressed_swells(m->asked->file, bytes);
}

static int end(void *user, struct leat_error *error)
{
    struct maker *m = user;
    if (m->leaves_out)
        return LEAT_OK;
    if (swells(m))
        return leat_fail_at(error, LEAT_E_CORRUPT, m->path, (int64_t)m->header,
                            "%s has far more files by byte %" PRIu64 " of what is decoded than its bytes should hold: "
                            "it is damaged; if they are right, decompress it",
                            m->path, m->header);
    const size_t ending = leat_tar_ending_of(&m->member);
    struct leat_tar_ending *e = &m->endings[ending];
    const uint64_t size = leat_tar_bytes(&m->member);
    unsigned form = LEAT_TAR_OPAQUE;
    size_t shape;
    if (m->is_array && !m->has_header)
        begin_array(m);
    if (m->is_array) {
        if (!m->fault && m->npy.bytes != size - m->npy.header)
            m->fault = "its size is not that of its shape";
        if (!m->fault && m->npy.ndim > LEAT_MAX_DIMS)
            m->fault = "it has more dimensions than a field";
        for (unsigned d = 1; !m->fault && d < m->npy.ndim; d++)
            if (!m->npy.shape[d])
                m->fault = "a dimension is 0";
        form = m->npy.pickled ? LEAT_TAR_OBJECTS : LEAT_TAR_NO_ARRAY;
        if (!m->fault) {
            const int rc = find_shape(m, ending, &shape, error);
            if (rc)
                return rc;
            form = shape < SHAPES ? LEAT_TAR_ARRAY + (unsigned)shape : LEAT_TAR_NO_ARRAY;
            m->member.number = (int64_t)leat_hash_end(&m->hash);
            e->arrays++;
        } else if (m->npy.pickled && !e->objects++) {
            e->first_objects = leat_tar_at(&m->member);
        }
    } else if (size <= HEAD && read_integer(m->head, m->n_head, &m->member.number)) {
        form = LEAT_TAR_INTEGER;
        e->integers++;
    } else if (leat_photo_begins(m->head, m->n_head)) {
        form = LEAT_TAR_PHOTO;
        e->photos++;
    }
    m->member.facts |= form;
    e->n++;
    m->members[m->index->n_members++] = m->member;
    return LEAT_OK;
}

/* ---- samples that are torn ------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b, void *user)
{
    const struct maker *m = user;
    const uint64_t i = *(const uint64_t *)a, k = *(const uint64_t *)b;
    const int order = strcmp(m->keys + m->samples[i].key, m->keys + m->samples[k].key);
    return order ? order : (i > k) - (i < k);
}

static bool share_an_ending(const struct maker *m, uint64_t a, uint64_t b)
{
    for (uint64_t i = m->samples[a].member; i < m->samples[a + 1].member; i++)
        for (uint64_t k = m->samples[b].member; k < m->samples[b + 1].member; k++)
            if (leat_tar_ending_of(&m->members[i]) == leat_tar_ending_of(&m->members[k]))
                return true;
    return false;
}

/* Counts samples whose files did not follow each other: a tar that is sorted in another way, 0.jpg 1.jpg 0.cls 1.cls,
 * has two halves of each. Behind another tar (`cat a b`) keys may come again with the same files. */
static int count_torn(struct maker *m, struct leat_error *error)
{
    const uint64_t n = m->index->count;
    bool lacks = false;
    for (uint64_t e = 0; e < m->index->n_endings; e++)
        lacks = lacks || m->endings[e].n < n;
    uint64_t *order = lacks ? leat_new_array((size_t)n, sizeof *order) : NULL;
    if (lacks && !order)
        return no_memory(m, error);
    for (uint64_t i = 0; order && i < n; i++)
        order[i] = i;
    if (order)
        qsort_r(order, (size_t)n, sizeof *order, compare_keys, m);
    for (uint64_t i = 1; order && i < n; i++)
        m->index->torn += !strcmp(m->keys + m->samples[order[i - 1]].key, m->keys + m->samples[order[i]].key) &&
                          !share_an_ending(m, order[i - 1], order[i]);
    leat_free(order);
    return LEAT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int tell(struct maker *m, uint64_t done, uint64_t total, struct leat_error *error)
{
    m->done = done;
    if (!m->asked->progress || done - m->told < TELL)
        return LEAT_OK;
    m->told = done;
    return m->asked->progress(m->asked->user, done, total)
               ? leat_fail(error, LEAT_E_CANCELLED, "reading %s was stopped", m->path)
               : LEAT_OK;
}

static int take(void *user, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    struct maker *m = user;
    const int rc = leat_tar_scan_push(m->scan, bytes, n, error);
    return rc ? rc : tell(m, m->done + n, 0, error);
}

/* From header to header. */
static int read_plain(struct maker *m, struct leat_error *error)
{
    struct leat_io_file *file = m->asked->file;
    const bool remote = leat_io_is_remote(file->path); /* where a request costs as much as a megabyte or more */
    uint8_t *piece = leat_alloc(LONGEST_STEP);
    size_t step = remote ? LONGEST_STEP : STEP;
    int rc = piece ? LEAT_OK : no_memory(m, error);
    for (uint64_t at = 0; at < file->size && !rc;) {
        uint64_t passes = leat_tar_scan_passes(m->scan);
        if (passes > file->size - at)
            passes = file->size - at;
        if (passes > (remote ? LONGEST_STEP : STEP)) {
            leat_tar_scan_pass(m->scan, passes);
            at += passes;
            step = remote ? LONGEST_STEP : STEP;
            continue;
        }
        const size_t n = file->size - at < step ? (size_t)(file->size - at) : step;
        rc = leat_io_read(file, at, n, piece, error);
        rc = rc ? rc : leat_tar_scan_push(m->scan, piece, n, error);
        at += n;
        step = step < LONGEST_STEP ? 2 * step : step;
        rc = rc ? rc : tell(m, at, file->size, error);
    }
    leat_free(piece);
    return rc;
}

static void give(struct maker *m)
{
    struct leat_tar_index *x = m->index;
    x->samples = x->own[0] = m->samples;
    x->members = x->own[1] = m->members;
    x->keys = x->own[2] = m->keys;
    x->endings_text = x->own[3] = m->text;
    x->endings = x->own[4] = m->endings;
    x->shapes = x->own[5] = m->shapes;
    x->keys_bytes = m->keys_n;
}

int leat_tar_index_make(const struct leat_tar_making *asked, struct leat_compressed *made, struct leat_tar_index *x,
                        struct leat_error *error)
{
    const bool plain = asked->compression == LEAT_COMPRESSION_NONE;
    struct maker *m = leat_new(struct maker);
    const struct leat_tar_sink sink = {begin, body, end, m, asked->most, link_to};
    *x = (struct leat_tar_index){0};
    *made = (struct leat_compressed){.lasting = true};
    if (!m)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the index of %s", asked->file->path);
    m->asked = asked;
    m->path = asked->file->path;
    m->index = x;
    int rc = leat_grow(&m->samples, &m->samples_room, 1, sizeof *m->samples) ? LEAT_OK : no_memory(m, error);
    rc = rc ? rc : leat_tar_scan_begin(m->path, plain ? asked->file->size : UINT64_MAX, &sink, &m->scan, error);
    if (!rc && plain) {
        rc = read_plain(m, error);
        made->file = rc ? NULL : leat_io_retain(asked->file);
    } else if (!rc) {
        rc = leat_compressed_read(asked->file, asked->compression, asked->copy, take, m, made, error);
    }
    const int whole = leat_tar_scan_end(m->scan, !rc, rc ? NULL : error);
    rc = rc ? rc : whole;
    x->bytes = made->file ? made->file->size : 0;
    if (m->samples)
        m->samples[x->count] = (struct leat_tar_sample){m->keys_n, x->n_members};
    rc = rc ? rc : count_torn(m, error);
    give(m);
    leat_free(m);
    if (!rc)
        return rc;
    leat_io_release(made->file);
    leat_free(made->frames);
    *made = (struct leat_compressed){0};
    leat_tar_index_destroy(x);
    return rc;
}
