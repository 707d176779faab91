/*
 * Finishing a group is the part of the writer's work that runs in parallel: reading files, checking photos, checksums,
 * columns. It depends only on the group's inputs and the options, so the file is the same for any number of threads.
 */
#include "store/group.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/known.h"
#include "base/transfer.h"
#include "format/fingerprint.h"
#include "format/source.h"
#include "store/check.h"
#include "store/text.h"

#define KEEP_BYTES (LEAT_STORE_GROUP_BYTES * 4) /* a buffer that grew beyond this for one huge sample is released */

/* ---- filling --------------------------------------------------------------------------------- */

int leat_group_init(struct leat_group *g, const struct leat_store_layout *layout)
{
    memset(g, 0, sizeof *g);
    g->layout = layout;
    g->columns = leat_new_array(layout->n_stored, sizeof *g->columns);
    g->boxes = leat_new_array(layout->n_stored, sizeof *g->boxes);
    return g->columns && g->boxes ? LEAT_OK : LEAT_E_NOMEM;
}

static void drop_replacements(struct leat_group_value *value)
{
    leat_free(value->instead);
    leat_free(value->rows);
    value->instead = value->rows = NULL;
}

static void drop_all_replacements(struct leat_group *g)
{
    size_t n = g->values.length / sizeof(struct leat_group_value);
    for (size_t i = 0; i < n; i++)
        drop_replacements((struct leat_group_value *)(void *)g->values.data + i);
}

void leat_group_destroy(struct leat_group *g)
{
    drop_all_replacements(g);
    for (uint32_t f = 0; g->columns && f < g->layout->n_stored; f++)
        leat_growing_destroy(&g->columns[f]);
    leat_free(g->columns);
    leat_free(g->boxes);
    leat_growing_destroy(&g->bytes);
    leat_growing_destroy(&g->moved);
    leat_growing_destroy(&g->files);
    leat_growing_destroy(&g->values);
    leat_growing_destroy(&g->paths);
    leat_growing_destroy(&g->notes);
    leat_growing_destroy(&g->dropped);
    memset(g, 0, sizeof *g);
}

static void empty(struct leat_growing *b)
{
    if (b->room > KEEP_BYTES)
        leat_growing_destroy(b);
    b->length = 0;
}

/* Undone, so that memory for files that are read elsewhere is never touched. */
static void swap_moved(struct leat_group *g)
{
    struct leat_growing swap = g->bytes;
    g->bytes = g->moved;
    g->moved = swap;
    g->swapped = !g->swapped;
}

bool leat_group_begin(struct leat_group *g, uint64_t first_input)
{
    if (g->swapped)
        swap_moved(g);
    drop_all_replacements(g);
    for (uint32_t f = 0; f < g->layout->n_stored; f++)
        empty(&g->columns[f]);
    empty(&g->bytes);
    empty(&g->moved);
    empty(&g->files);
    empty(&g->values);
    empty(&g->paths);
    empty(&g->notes);
    empty(&g->dropped);
    memset(g->boxes, 0, g->layout->n_stored * sizeof *g->boxes);
    g->first_input = first_input;
    g->n_inputs = g->n_notes = g->n_broken = g->n_skipped = 0;
    g->input_bytes = 0;
    g->sums[0] = g->sums[1] = 0;
    g->status = LEAT_OK;
    leat_error_clear(&g->error);
    uint8_t *header = leat_growing_extend(&g->bytes, LEAT_STORE_GROUP_HEADER);
    if (header)
        memset(header, 0, LEAT_STORE_GROUP_HEADER);
    return header != NULL;
}

uint64_t leat_group_cost(const struct leat_store_layout *l, const struct leat_value_ref *values)
{
    uint64_t cost = l->row_bytes;
    for (uint32_t f = 0; f < l->n_stored; f++)
        if (l->info[f].varying)
            cost += values[f].length;
    return cost;
}

/* Without varying fields all groups have the same number of rows, a power of two: the row's group is then a shift. */
uint32_t leat_group_room(const struct leat_store_layout *l)
{
    uint64_t rows = LEAT_STORE_GROUP_ROWS;
    while (!l->n_varying && rows > 1 && rows * l->row_bytes > LEAT_STORE_GROUP_BYTES)
        rows /= 2;
    return (uint32_t)rows;
}

int leat_group_add(struct leat_group *g, const struct leat_value_ref *values, struct leat_error *error)
{
    const struct leat_store_layout *l = g->layout;
    for (uint32_t f = 0; f < l->n_stored; f++) {
        const struct leat_value_ref *in = &values[f];
        bool ok = true;
        if (!l->info[f].varying) {
            ok = leat_growing_append(&g->columns[f], in->data, l->info[f].width);
        } else {
            struct leat_group_value value = {.at = g->bytes.length, .length = in->length};
            uint8_t *place = leat_growing_extend(&g->bytes, in->length);
            ok = place != NULL;
            if (ok && in->path) {
                value.path = g->paths.length + 1;
                ok = leat_growing_append(&g->paths, in->path, strlen(in->path) + 1);
            } else if (ok && in->length) {
                memcpy(place, in->data, in->length);
            }
            ok = ok && leat_growing_append(&g->values, &value, sizeof value);
        }
        if (!ok)
            return leat_fail(error, LEAT_E_NOMEM, "no memory for a sample of %" PRIu64 " bytes",
                             leat_group_cost(l, values));
    }
    g->n_inputs++;
    g->input_bytes += leat_group_cost(l, values);
    return LEAT_OK;
}

int leat_group_add_columns(struct leat_group *g, const void *const *columns, uint64_t skip, uint32_t n,
                           struct leat_error *error)
{
    const struct leat_store_layout *l = g->layout;
    for (uint32_t f = 0; f < l->n_stored; f++) {
        uint64_t width = l->info[f].width;
        if (!leat_growing_append(&g->columns[f], (const uint8_t *)columns[f] + skip * width, n * width))
            return leat_fail(error, LEAT_E_NOMEM, "no memory for %u samples of %" PRIu64 " bytes", n, l->row_bytes);
    }
    g->n_inputs += n;
    g->input_bytes += n * l->row_bytes;
    return LEAT_OK;
}

static int check_bools(const struct leat_field *field, const uint8_t *data, uint64_t length, struct leat_error *error)
{
    for (uint64_t i = 0; i < length; i++)
        if (data[i] > 1)
            return leat_fail(error, LEAT_E_INVALID,
                             "byte %" PRIu64 " of a value of bool field '%s' is %u: a bool is 0 or 1", i, field->name,
                             data[i]);
    return LEAT_OK;
}

int leat_group_check_value(const struct leat_store_layout *l, uint32_t f, const void *data, uint64_t length,
                           struct leat_error *error)
{
    const struct leat_field *field = &l->fields[f];
    const struct leat_store_field *info = &l->info[f];
    if (info->varying ? length % info->unit != 0 : length != info->unit)
        return leat_fail(error, LEAT_E_INVALID,
                         "a value of field '%s' has %" PRIu64 " bytes: the schema asks for %s%" PRIu64, field->name,
                         length, info->varying ? "a multiple of " : "", info->unit);
    if (!data)
        return LEAT_OK;
    if (field->dtype == LEAT_BOOL && field->kind == LEAT_KIND_ARRAY)
        return check_bools(field, data, length, error);
    size_t bad;
    if (!leat_text_fits(field->kind, data, length, &bad))
        return leat_fail(error, LEAT_E_INVALID, "a value of field '%s' is not %s: byte %zu of %" PRIu64 " is wrong",
                         field->name, leat_text_kind(field->kind), bad, length);
    if ((int64_t)f == l->name_field && l->has_files && (length >= LEAT_STORE_NAME_BYTES || memchr(data, 0, length)))
        return leat_fail(error, LEAT_E_INVALID,
                         "a value of field 'name' has %" PRIu64 " bytes or a NUL: a name has at most %d and none",
                         length, LEAT_STORE_NAME_BYTES - 1);
    return LEAT_OK;
}

/* ---- finishing: files and photos ------------------------------------------------------------- */

static int fail_at(struct leat_group *g, uint64_t input, uint32_t field, int code)
{
    leat_error_at_sample(&g->error, (int64_t)(g->first_input + input), g->layout->names[field]);
    return code;
}

/* Reads a file that must have exactly the size that its listing gave. */
static int read_file(const char *path, uint8_t *to, uint64_t length, struct leat_error *error)
{
    int rc = LEAT_OK, fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        rc = leat_fail_errno(error, LEAT_E_IO, "cannot open the file: %s",
                             errno == ENOENT ? "put it back, as it was" : "make it readable");
        goto out;
    }
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != length) {
        rc = leat_fail(error, LEAT_E_CHANGED,
                       "the file has %lld bytes and had %" PRIu64 " when it was listed: start again",
                       (long long)st.st_size, length);
        goto out;
    }
    const uint64_t got = leat_read_at(fd, to, length, 0);
    if (got < length) {
        rc = errno ? leat_fail_errno(error, LEAT_E_IO, "reading failed")
                   : leat_fail(error, LEAT_E_CHANGED, "the file became shorter while it was read: start again");
        leat_error_at_file(error, path, (int64_t)got);
    }
out:
    if (fd >= 0)
        close(fd);
    if (rc)
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
    return rc;
}

static int note(struct leat_group *g, uint64_t input, enum leat_note_kind kind, const char *reason)
{
    const struct leat_store_layout *l = g->layout;
    const void *name = "";
    uint64_t name_bytes = 0;
    uint32_t v = 0;
    for (uint32_t f = 0; f < l->n_stored; f++) {
        if (!l->info[f].varying)
            continue;
        const struct leat_group_value *value = leat_group_value_at(g, input, v++);
        if ((int64_t)f == l->name_field && value->length < LEAT_STORE_NAME_BYTES) {
            name = leat_group_came(g, value);
            name_bytes = value->length;
            break;
        }
        if (value->path && !name_bytes) {
            name = g->paths.data + value->path - 1;
            name_bytes = strlen(name);
        }
    }
    uint8_t fixed[LEAT_STORE_NOTE_FIXED];
    leat_put_u64(fixed, g->first_input + input);
    leat_put_u32(fixed + 8, kind);
    leat_put_u32(fixed + 12, (uint32_t)name_bytes);
    leat_put_u32(fixed + 16, (uint32_t)strlen(reason));
    g->n_notes++;
    return leat_growing_append(&g->notes, fixed, sizeof fixed) && leat_growing_append(&g->notes, name, name_bytes) &&
                   leat_growing_append(&g->notes, reason, strlen(reason))
               ? LEAT_OK
               : leat_fail(&g->error, LEAT_E_NOMEM, "no memory for the report of bad photos");
}

/* Shrinks a photo that is too large: `data` and `length` then are the smaller one. */
static int shrink(struct leat_group *g, struct leat_group_value *value, const struct leat_codec *codec,
                  const struct leat_group_options *options, const uint8_t **data, size_t *length)
{
    size_t n = 0;
    int rc = codec->shrink(*data, *length, options->max_side, options->quality, options->lenient, &value->instead, &n,
                           &g->error);
    if (rc || !value->instead)
        return rc;
    *data = value->instead;
    *length = value->length = n;
    return codec->probe(*data, n, &value->record.info, &g->error);
}

/* The value in the requested form. LEAT_E_UNSUPPORTED: it cannot have it. */
static int change_form(struct leat_group *g, uint32_t field, struct leat_group_value *value,
                       struct leat_decoder *decoder, const struct leat_group_options *options, const uint8_t *data,
                       size_t length)
{
    uint8_t *packed = NULL;
    size_t n = 0;
    if (length > UINT32_MAX)
        return leat_fail(&g->error, LEAT_E_UNSUPPORTED, "it has 4 GiB or more");
    int rc = decoder->codec->pack(decoder, options->photos, options->lenient, data, length, &packed, &n, &g->error);
    if (rc)
        return rc;
    value->came_length = length;
    if (!(g->layout->fields[field].flags & LEAT_FIELD_FILES)) /* the fingerprint of a file is over its name */
        value->came_checksum = leat_hash64(data, length);
    leat_free(value->instead);
    value->instead = packed;
    value->length = n;
    value->record.info.form = (uint8_t)options->photos;
    value->record.info.original = (uint32_t)length;
    value->record.info.health = LEAT_HEALTH_GOOD;
    return LEAT_OK;
}

/* A value that is stored unchanged or shrunk. One that only lenient decoding accepts is not marked good, so that every
 * decoder checks it. */
static int check_value(struct leat_group *g, struct leat_group_value *value, struct leat_decoder *decoder, bool lenient,
                       const uint8_t *data, size_t length)
{
    size_t n = 0;
    int rc = leat_decoder_check(decoder, data, length, lenient, &g->error);
    if (rc || !leat_decoder_whole(decoder))
        return rc;
    const uint8_t *rows = leat_decoder_rows(decoder, &n);
    if (rows) {
        if (!(value->rows = leat_alloc(n)))
            return leat_fail(&g->error, LEAT_E_NOMEM, "no memory for a row index of %zu bytes", n);
        memcpy(value->rows, rows, n);
        value->record.info.rows_length = (uint32_t)n; /* under 1 % of the value: no larger one can be read */
    }
    value->record.info.health = LEAT_HEALTH_GOOD;
    return LEAT_OK;
}

/* A value that comes as its elements, and was never another thing. */
static int take_raw(struct leat_group *g, uint64_t input, struct leat_group_value *value,
                    const struct leat_codec *codec, const struct leat_group_options *options, const uint8_t *data,
                    size_t length)
{
    struct leat_value view = {.data = data, .length = length};
    const int rc = length > UINT32_MAX ? leat_fail(&g->error, LEAT_E_UNSUPPORTED, "it has 4 GiB or more")
                                       : codec->view(&view, &g->error);
    if (rc)
        return rc;
    value->came_length = length;
    value->came_checksum = leat_hash64(data, length);
    value->record.info = (struct leat_value_info){
        .size = {(uint32_t)view.shape[codec->image ? 1 : 0], codec->image ? (uint32_t)view.shape[0] : 0},
        .channels = codec->image ? (uint8_t)view.shape[2] : 0,
        .health = LEAT_HEALTH_GOOD,
        .form = LEAT_FORM_RAW,
        .original = (uint32_t)length};
    const unsigned side = options->max_side;
    return side && (view.shape[0] > side || view.shape[1] > side)
               ? note(g, input, LEAT_NOTE_AS_CAME, "it is pixels, which are not made smaller")
               : LEAT_OK;
}

/* Checks one encoded value: fills its record, and replaces it by a smaller one or another form if that was requested.
 * `*warnings`: those that lenient decoding accepted. LEAT_E_DECODE: broken. */
static int look(struct leat_group *g, uint64_t input, uint32_t field, struct leat_group_value *value,
                struct leat_decoder *decoder, const struct leat_group_options *options, unsigned *warnings)
{
    const struct leat_codec *codec = decoder->codec;
    struct leat_value_info *info = &value->record.info, found = {0};
    const uint8_t *data = leat_group_came(g, value);
    size_t length = value->length;
    if (g->layout->features & LEAT_FEATURE_FORMS && codec->form_of && codec->form_of(data, length) == LEAT_FORM_RAW)
        return take_raw(g, input, value, codec, options, data, length);
    int rc = codec->probe(data, length, &found, &g->error);
    if (rc)
        return rc;
    *info = found;
    value->turned = codec->image && leat_photo_orientation(data, length) > 4;
    bool mask = g->layout->fields[field].role == LEAT_ROLE_MASK; /* its pixels are no colours: it stays unchanged */
    bool large = !mask && options->max_side && (info->size[0] > options->max_side || info->size[1] > options->max_side);
    bool check = options->check;
    char reason[sizeof g->error.message] = ""; /* why it stays unchanged */
    if (large && check) {
        rc = leat_decoder_check(decoder, data, length, options->lenient, &g->error);
        *warnings = leat_decoder_warnings(decoder);
    }
    if (!rc && large)
        rc = shrink(g, value, codec, options, &data, &length);
    if (!rc && options->photos && !mask) {
        rc = change_form(g, field, value, decoder, options, data, length);
        if (rc != LEAT_E_UNSUPPORTED) {
            *warnings |= leat_decoder_warnings(decoder);
            return rc;
        }
        memcpy(reason, g->error.message, sizeof reason);
        leat_error_clear(&g->error);
        rc = LEAT_OK;
        check |= options->lenient; /* damage may be the reason */
    }
    if (!rc && check) {
        rc = check_value(g, value, decoder, options->lenient, data, length);
        *warnings |= leat_decoder_warnings(decoder);
    }
    return rc || !*reason ? rc : note(g, input, LEAT_NOTE_AS_CAME, reason);
}

/* Every part of leat gives the same reason why a value is broken: the error of decoding it to its end. */
static void find_reason(struct leat_group *g, const struct leat_group_value *value, struct leat_decoder *decoder,
                        bool lenient)
{
    struct leat_error error;
    if (!value->instead &&
        leat_decoder_check(decoder, leat_group_came(g, value), value->length, lenient, &error) == LEAT_E_DECODE)
        g->error = error;
}

/* A photo without bytes may be one that the sample has not: its source says so in NAME.valid, as the loader does. */
static void say_absent(struct leat_group *g, uint64_t input, uint32_t field)
{
    const struct leat_store_layout *l = g->layout;
    char valid[LEAT_FIELD_NAME + 8];
    snprintf(valid, sizeof valid, "%s.valid", l->fields[field].name);
    for (uint32_t f = 0; f < l->n_stored; f++)
        if (!strcmp(l->fields[f].name, valid) && !l->info[f].varying && l->fields[f].dtype == LEAT_BOOL &&
            l->info[f].width == 1 && !g->columns[f].data[input])
            leat_fail(&g->error, LEAT_E_DECODE, "there is no %s here (%s is false)", l->fields[field].name, valid);
}

static int note_warnings(struct leat_group *g, uint64_t input, const struct leat_codec *codec, unsigned warnings)
{
    int rc = LEAT_OK;
    for (unsigned i = 0; !rc && warnings >> i; i++)
        if (warnings >> i & 1)
            rc = note(g, input, LEAT_NOTE_WARNED, codec->warning_names[i]);
    return rc;
}

/* A photo of a sample is broken: g->error says why. The first one of each sample is reported. Notes about this sample
 * begin at `notes`, and there were n_notes before. */
static int report_broken(struct leat_group *g, uint64_t input, bool skip, bool first, size_t notes, uint32_t n_notes)
{
    int rc = LEAT_OK;
    if (skip) { /* drops the notes about its other photos */
        g->notes.length = notes;
        g->n_notes = n_notes;
    }
    if (first)
        rc = note(g, input, skip ? LEAT_NOTE_SKIPPED : LEAT_NOTE_MARKED, g->error.message);
    g->n_broken += first && !skip;
    g->n_skipped += skip;
    ((bool *)g->dropped.data)[input] = skip;
    leat_error_clear(&g->error);
    return rc ? leat_fail(&g->error, rc, "no memory for the report of bad photos") : LEAT_OK;
}

static int look_at_sample(struct leat_group *g, uint64_t input, struct leat_decoders *decoders,
                          const struct leat_group_options *options)
{
    const struct leat_store_layout *l = g->layout;
    const size_t notes = g->notes.length;
    const uint32_t n_notes = g->n_notes;
    uint32_t v = 0, n_broken = 0;
    for (uint32_t f = 0; f < l->n_stored; f++) {
        if (!l->info[f].varying)
            continue;
        struct leat_group_value *value = leat_group_value_at(g, input, v++);
        if (!l->info[f].codec)
            continue;
        struct leat_decoder *decoder = leat_decoders_get(decoders, l->info[f].codec);
        unsigned warnings = 0;
        int rc = decoder ? look(g, input, f, value, decoder, options, &warnings)
                         : leat_fail(&g->error, LEAT_E_NOMEM, "no memory to check encoded values");
        if (!rc)
            rc = note_warnings(g, input, l->info[f].codec, warnings);
        if (!rc)
            continue;
        if (rc == LEAT_E_DECODE)
            find_reason(g, value, decoder, options->lenient);
        if (rc == LEAT_E_DECODE && !value->length)
            say_absent(g, input, f);
        value->record.info.health = LEAT_HEALTH_BROKEN;
        if (value->path && rc == LEAT_E_DECODE)
            leat_error_at_file(&g->error, (const char *)g->paths.data + value->path - 1, LEAT_NO_OFFSET);
        if (rc != LEAT_E_DECODE || options->on_bad == LEAT_BAD_RAISE)
            return fail_at(g, input, f, rc);
        bool skip = options->on_bad == LEAT_BAD_SKIP;
        rc = report_broken(g, input, skip, !n_broken++, notes, n_notes);
        if (rc || skip)
            return rc;
    }
    return LEAT_OK;
}

/* Makes room for the files of a sample beside `bytes`. */
static bool reserve_files(struct leat_group *g, uint64_t input)
{
    uint64_t bytes = 0; /* fewer than there are in `bytes` */
    for (uint32_t v = 0; v < g->layout->n_varying; v++)
        bytes += leat_group_value_at(g, input, v)->path ? leat_group_value_at(g, input, v)->length : 0;
    g->files.length = 0;
    return leat_growing_reserve(&g->files, bytes + 1);
}

static int read_files(struct leat_group *g, uint64_t input)
{
    const struct leat_store_layout *l = g->layout;
    const bool moves = g->moved.length > 0;
    uint32_t v = 0;
    if (moves && !reserve_files(g, input))
        return leat_fail(&g->error, LEAT_E_NOMEM, "no memory for the files of a sample");
    for (uint32_t f = 0; f < l->n_stored; f++) {
        if (!l->info[f].varying)
            continue;
        struct leat_group_value *value = leat_group_value_at(g, input, v++);
        if (!value->path)
            continue;
        uint8_t *data = moves ? leat_growing_extend(&g->files, value->length) : g->bytes.data + value->at;
        const char *path = (const char *)g->paths.data + value->path - 1;
        int rc = read_file(path, data, value->length, &g->error);
        if (!rc && (rc = leat_group_check_value(l, f, data, value->length, &g->error)))
            leat_error_at_file(&g->error, path, LEAT_NO_OFFSET);
        if (rc)
            return fail_at(g, input, f, rc);
        if (moves)
            value->read = data;
    }
    return LEAT_OK;
}

/* ---- finishing: bytes ------------------------------------------------------------------------ */

static bool is_dropped(const struct leat_group *g, uint64_t input)
{
    return ((const bool *)g->dropped.data)[input];
}

/* Appends a sample's payloads, if it is kept, in their final form to `moved`. The memory of replacements is released at
 * once: the next sample uses it while it is still in the cache. */
static bool move_sample(struct leat_group *g, uint64_t input)
{
    bool ok = true;
    for (uint32_t v = 0; v < g->layout->n_varying; v++) {
        struct leat_group_value *value = leat_group_value_at(g, input, v);
        if (ok && !is_dropped(g, input)) {
            const uint8_t *from = value->instead ? value->instead : leat_group_came(g, value);
            value->at = g->moved.length;
            ok = leat_growing_append(&g->moved, from, value->length) &&
                 leat_growing_append(&g->moved, value->rows, value->record.info.rows_length);
        }
        drop_replacements(value);
        value->read = NULL;
    }
    return ok;
}

/* Whether a sample moves or changes. */
static bool is_changed(const struct leat_group *g, uint64_t input)
{
    bool changed = is_dropped(g, input);
    for (uint32_t v = 0; v < g->layout->n_varying; v++) {
        const struct leat_group_value *value = leat_group_value_at(g, input, v);
        changed |= value->instead || value->rows;
    }
    return changed;
}

/* After each sample. From the first one that changes on, all move. */
static bool move_if_needed(struct leat_group *g, uint64_t input)
{
    bool ok = true;
    if (g->moved.length)
        return move_sample(g, input);
    if (!is_changed(g, input))
        return true;
    ok = leat_growing_extend(&g->moved, LEAT_STORE_GROUP_HEADER) != NULL;
    for (uint64_t i = 0; i <= input && ok; i++)
        ok = move_sample(g, i);
    return ok;
}

static void hash_payloads(struct leat_group *g)
{
    size_t n = g->values.length / sizeof(struct leat_group_value);
    struct leat_group_value *values = (struct leat_group_value *)(void *)g->values.data;
    for (size_t i = 0; i < n; i++) {
        values[i].record.offset = values[i].at;
        values[i].record.length = values[i].length;
        values[i].record.checksum = leat_hash64(g->bytes.data + values[i].at, values[i].length);
        if (values[i].record.info.form != LEAT_FORM_ORIGINAL)
            continue;
        values[i].came_length = values[i].length;
        values[i].came_checksum = values[i].record.checksum;
    }
}

/* Rows of fixed fields that are kept. */
static void close_gaps(struct leat_group *g)
{
    for (uint32_t f = 0; f < g->layout->n_stored; f++) {
        uint64_t width = g->layout->info[f].width, to = 0;
        if (g->layout->info[f].varying)
            continue;
        for (uint64_t i = 0; i < g->n_inputs; i++)
            if (!is_dropped(g, i))
                memmove(g->columns[f].data + width * to++, g->columns[f].data + width * i, width);
        g->columns[f].length = width * to;
    }
    uint64_t to = 0;
    for (uint64_t i = 0; i < g->n_inputs; i++)
        if (!is_dropped(g, i)) {
            for (uint32_t v = 0; v < g->layout->n_varying; v++)
                *leat_group_value_at(g, to, v) = *leat_group_value_at(g, i, v);
            to++;
        }
}

static bool append_columns(struct leat_group *g, uint32_t n_rows)
{
    const struct leat_store_layout *l = g->layout;
    for (uint32_t c = 0; c < l->n_stored; c++) {
        uint32_t f = l->order[c], v = 0;
        if (!l->info[f].varying) {
            if (!leat_growing_append(&g->bytes, g->columns[f].data, n_rows * l->info[f].width))
                return false;
            continue;
        }
        for (uint32_t before = 0; before < f; before++)
            v += l->info[before].varying;
        uint8_t *p = leat_growing_extend(&g->bytes, n_rows * l->info[f].width);
        if (!p)
            return false;
        for (uint64_t i = 0; i < n_rows; i++)
            leat_store_record_put(p + i * l->info[f].width, &leat_group_value_at(g, i, v)->record, l->info[f].codec);
    }
    return true;
}

/* The joinable hash over the samples: format/fingerprint.h. */
static void sum_fingerprint(struct leat_group *g, uint32_t n_rows)
{
    const struct leat_store_layout *l = g->layout;
    char name[LEAT_STORE_NAME_BYTES];
    for (uint64_t i = 0; i < n_rows; i++) {
        uint64_t sample[2] = {0, 0};
        uint32_t v = 0;
        for (uint32_t f = 0; f < l->n_stored; f++) {
            const struct leat_group_value *value = l->info[f].varying ? leat_group_value_at(g, i, v++) : NULL;
            if (l->fields[f].flags & LEAT_FIELD_DERIVED)
                continue;
            if (!value) {
                uint64_t width = l->info[f].width;
                leat_fingerprint_value(sample, leat_hash64(g->columns[f].data + i * width, width));
            } else if (l->fields[f].flags & LEAT_FIELD_FILES) {
                uint32_t at = 0;
                for (int64_t before = 0; before < l->name_field; before++)
                    at += l->info[before].varying;
                const struct leat_group_value *named = leat_group_value_at(g, i, at);
                memcpy(name, g->bytes.data + named->at, named->length);
                name[named->length] = 0;
                leat_fingerprint_file(sample, name, value->came_length);
            } else {
                leat_fingerprint_value(sample, value->came_checksum);
            }
        }
        leat_fingerprint_append(g->sums, sample);
    }
}

static bool append_directory(struct leat_group *g, uint32_t n_rows, uint64_t columns_at)
{
    const struct leat_store_layout *l = g->layout;
    if (!leat_growing_align(&g->bytes, 8))
        return false;
    uint64_t at = g->bytes.length, pages = leat_store_group_pages(l, n_rows, l->n_stored);
    uint8_t *p = leat_growing_extend(&g->bytes, LEAT_STORE_GROUP_FACTS + 8 * pages);
    if (!p)
        return false;
    leat_put_u64(p, g->sums[0]);
    leat_put_u64(p + 8, g->sums[1]);
    leat_put_u64(p + 16, g->n_broken);
    leat_put_u64(p + 24, g->n_notes);
    p += LEAT_STORE_GROUP_FACTS;
    for (uint32_t c = 0; c < l->n_stored; c++) {
        const struct leat_store_field *info = &l->info[l->order[c]];
        const uint8_t *column = g->bytes.data + columns_at + info->before * n_rows;
        for (uint64_t row = 0; row < n_rows; row += UINT64_C(1) << info->page_shift, p += 8) {
            uint64_t rows = UINT64_C(1) << info->page_shift;
            if (rows > n_rows - row)
                rows = n_rows - row;
            leat_put_u64(p, leat_hash64(column + row * info->width, rows * info->width));
        }
    }
    if (!leat_growing_append(&g->bytes, g->notes.data, g->notes.length))
        return false;
    g->header.directory_bytes = g->bytes.length - at;
    g->header.directory_checksum = leat_hash64(g->bytes.data + at, g->header.directory_bytes);
    return leat_growing_align(&g->bytes, LEAT_STORE_ALIGN);
}

static int build(struct leat_group *g)
{
    uint32_t n_rows = g->n_inputs - g->n_skipped;
    if (g->moved.length)
        swap_moved(g);
    if (g->n_skipped)
        close_gaps(g);
    g->values.length = (size_t)n_rows * g->layout->n_varying * sizeof(struct leat_group_value);
    g->header = (struct leat_store_group){.first_input = g->first_input, .n_rows = n_rows, .n_inputs = g->n_inputs};
    g->header.payload_bytes = g->bytes.length - LEAT_STORE_GROUP_HEADER;
    hash_payloads(g);
    sum_fingerprint(g, n_rows);
    bool ok = leat_growing_align(&g->bytes, LEAT_STORE_ALIGN);
    uint64_t columns_at = g->bytes.length;
    ok = ok && append_columns(g, n_rows) && append_directory(g, n_rows, columns_at);
    return ok ? LEAT_OK : leat_fail(&g->error, LEAT_E_NOMEM, "no memory for a group of %zu bytes", g->bytes.length);
}

void leat_group_finish(struct leat_group *g, struct leat_decoders *decoders, const struct leat_group_options *options)
{
    int rc = LEAT_OK;
    uint8_t *dropped = leat_growing_extend(&g->dropped, g->n_inputs);
    if (!dropped)
        rc = leat_fail(&g->error, LEAT_E_NOMEM, "no memory for a group of %u samples", g->n_inputs);
    else
        memset(dropped, 0, g->n_inputs);
    for (uint64_t i = 0; i < g->n_inputs && !rc && g->layout->n_varying; i++) {
        if (g->paths.length)
            rc = read_files(g, i);
        if (!rc && g->layout->n_encoded)
            rc = look_at_sample(g, i, decoders, options);
        if (!rc && !is_dropped(g, i))
            leat_group_count_boxes(g, i, options->max_side > 0);
        if (!rc && !move_if_needed(g, i))
            rc = leat_fail(&g->error, LEAT_E_NOMEM, "no memory for a group of %zu bytes", g->moved.length);
    }
    g->status = rc ? rc : build(g);
}

const uint8_t *leat_group_bytes(struct leat_group *g, uint64_t first_row, size_t *length)
{
    g->header.first_row = first_row;
    leat_store_group_put(g->bytes.data, &g->header);
    *length = g->bytes.length;
    return g->bytes.data;
}
