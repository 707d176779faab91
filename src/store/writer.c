/*
 * The writer. The caller's thread gathers samples into groups; worker threads finish full groups; whichever thread
 * finds the next one ready writes it, in order.
 *
 *     add() -> | filling | waiting | waiting | in work | in work | done | -> file
 *                 made                taken                        written
 *
 * The groups are a ring, two more than there are threads, which bounds the memory. The samples alone decide the
 * contents of a group, never the threads, so the file's bytes are the same for any number of them.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/role.h"
#include "base/thread.h"
#include "format/fingerprint.h"
#include "format/json_text.h"
#include "store/identity.h"
#include "store/target.h"
#include "store/text.h"
#include "store/writer.h"

/* The number of different reasons why photos stay unchanged. */
enum { REASONS = 32 };

enum stage { FREE = 0, WAITING, WORKING, DONE };

struct slot {
    struct leat_group group;
    enum stage stage;
};

struct leat_writer {
    struct leat_store_layout layout;
    struct leat_writer_options options; /* strings are copies */
    struct leat_group_options group_options;
    char *metadata, **classes;
    struct leat_target target;

    pthread_mutex_t lock; /* everything below */
    pthread_cond_t work, progress;
    struct slot *slots;
    uint64_t n_slots, made, taken, written; /* groups; made, taken and written only grow */
    bool writing, ending, filling;          /* filling: slot `made` holds samples */
    pthread_t *threads;
    unsigned n_threads, max_threads, idle;
    int status; /* the first failure, in the order of groups */
    struct leat_error error;
    struct leat_writer_progress progress_now;
    struct leat_bad_sample *bad;
    size_t n_bad, bad_room;
    struct tally {
        struct leat_as_came of[REASONS]; /* most frequent first */
        size_t n;
        uint64_t all;
    } as_came, warned;
    struct leat_box_counts *boxes; /* [n_stored] */

    uint64_t given, resumed; /* samples, and those that were there at the start; the caller's thread only */
    bool finished;
};

/* ---- bad samples ----------------------------------------------------------------------------- */

static char *copy_text(const char *text, size_t n)
{
    char *copy = leat_alloc(n + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = 0;
    return copy;
}

/* The index of a reason; n if it is a new one. */
static size_t find_reason(const struct tally *t, const char *reason, uint32_t bytes)
{
    size_t i = 0;
    while (i < t->n && (strlen(t->of[i].reason) != bytes || memcmp(t->of[i].reason, reason, bytes)))
        i++;
    return i;
}

/* One more photo for a reason. */
static int count_reason(struct tally *t, const char *reason, uint32_t bytes, struct leat_error *error)
{
    size_t i = find_reason(t, reason, bytes);
    if (i == t->n && i >= REASONS - 1) {
        reason = "other reasons";
        bytes = (uint32_t)strlen(reason);
        i = find_reason(t, reason, bytes);
    }
    if (i == t->n) {
        char *copy = copy_text(reason, bytes);
        if (!copy)
            return leat_fail(error, LEAT_E_NOMEM, "no memory for the report of photos");
        t->of[t->n++] = (struct leat_as_came){.reason = copy};
    }
    t->of[i].photos++;
    t->all++;
    for (; i && t->of[i - 1].photos < t->of[i].photos; i--) {
        struct leat_as_came swap = t->of[i];
        t->of[i] = t->of[i - 1];
        t->of[i - 1] = swap;
    }
    return LEAT_OK;
}

static void drop_tally(struct tally *t)
{
    for (size_t i = 0; i < t->n; i++)
        leat_free((char *)t->of[i].reason);
}

static int add_bad(void *user, const struct leat_store_note *note, struct leat_error *error)
{
    struct leat_writer *w = user;
    if (note->kind == LEAT_NOTE_AS_CAME || note->kind == LEAT_NOTE_WARNED)
        return count_reason(note->kind == LEAT_NOTE_WARNED ? &w->warned : &w->as_came, note->reason, note->reason_bytes,
                            error);
    if (!leat_grow(&w->bad, &w->bad_room, w->n_bad + 1, sizeof *w->bad))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the report of bad photos");
    struct leat_bad_sample b = {.index = note->input, .skipped = note->kind == LEAT_NOTE_SKIPPED};
    b.name = copy_text(note->name, note->name_bytes);
    b.reason = copy_text(note->reason, note->reason_bytes);
    if (!b.name || !b.reason) {
        leat_free((char *)b.name);
        leat_free((char *)b.reason);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the report of bad photos");
    }
    w->bad[w->n_bad++] = b;
    return LEAT_OK;
}

bool leat_writer_bad(const struct leat_writer *w, size_t i, struct leat_bad_sample *out)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&w->lock;
    pthread_mutex_lock(lock);
    bool there = i < w->n_bad;
    if (there)
        *out = w->bad[i];
    pthread_mutex_unlock(lock);
    return there;
}

static bool tell(const struct leat_writer *w, const struct tally *t, size_t i, struct leat_as_came *out)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&w->lock;
    pthread_mutex_lock(lock);
    bool there = i < t->n;
    if (there)
        *out = t->of[i];
    pthread_mutex_unlock(lock);
    return there;
}

bool leat_writer_as_came(const struct leat_writer *w, size_t i, struct leat_as_came *out)
{
    return tell(w, &w->as_came, i, out);
}

bool leat_writer_warned(const struct leat_writer *w, size_t i, struct leat_as_came *out)
{
    return tell(w, &w->warned, i, out);
}

/* ---- writing in order ------------------------------------------------------------------------ */

bool leat_writer_boxes(const struct leat_writer *w, size_t field, struct leat_box_counts *out)
{
    bool image = false;
    for (uint32_t f = 0; f < w->layout.n_stored; f++)
        image |= leat_store_is_image(&w->layout, f);
    if (!image || field >= w->layout.n_stored || !leat_role_is_boxes(w->layout.fields[field].role))
        return false;
    pthread_mutex_t *lock = (pthread_mutex_t *)&w->lock;
    pthread_mutex_lock(lock);
    *out = w->boxes[field];
    pthread_mutex_unlock(lock);
    return true;
}

static void update_progress(struct leat_writer *w)
{
    const struct leat_target *t = &w->target;
    const struct leat_part *part = t->sharded ? &t->shard : &t->main;
    w->progress_now = (struct leat_writer_progress){.samples = t->samples + part->summary.count,
                                                    .bytes = t->bytes + part->bytes,
                                                    .broken = t->broken + part->summary.broken,
                                                    .skipped = t->skipped + part->summary.skipped,
                                                    .as_came = w->as_came.all};
}

/* The report of a group's bad photos, from its notes. */
static int report_group(struct leat_writer *w, const struct leat_group *g, struct leat_error *error)
{
    const uint8_t *p = g->notes.data, *end = p ? p + g->notes.length : p;
    struct leat_store_note note;
    while (p && leat_store_note_get(&p, end, &note)) {
        int rc = add_bad(w, &note, error);
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* Called with the lock held, which is released while writing. One thread writes at a time. */
static void write_ready(struct leat_writer *w)
{
    while (!w->writing && w->written < w->taken && w->slots[w->written % w->n_slots].stage == DONE) {
        struct slot *s = &w->slots[w->written % w->n_slots];
        struct leat_error error;
        int rc = w->status;
        w->writing = true;
        if (!rc && s->group.status) {
            rc = s->group.status;
            error = s->group.error;
        } else if (!rc) {
            pthread_mutex_unlock(&w->lock);
            leat_error_clear(&error);
            rc = leat_target_write(&w->target, &s->group, &error);
            pthread_mutex_lock(&w->lock);
            if (!rc)
                rc = report_group(w, &s->group, &error);
            for (uint32_t f = 0; !rc && f < w->layout.n_stored; f++)
                leat_box_counts_join(&w->boxes[f], &s->group.boxes[f]);
        }
        if (rc && !w->status) {
            w->status = rc;
            w->error = error;
        }
        if (!w->status)
            update_progress(w);
        w->writing = false;
        w->written++;
        s->stage = FREE;
        pthread_cond_broadcast(&w->progress);
    }
}

static void *work(void *arg)
{
    struct leat_writer *w = arg;
    struct leat_decoders decoders = {0};
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (w->taken == w->made && !w->ending) {
            w->idle++;
            pthread_cond_wait(&w->work, &w->lock);
            w->idle--;
        }
        if (w->taken == w->made)
            break;
        struct slot *s = &w->slots[w->taken++ % w->n_slots];
        s->stage = WORKING;
        bool failed = w->status != LEAT_OK; /* nothing is written after a failure: drop it */
        pthread_mutex_unlock(&w->lock);
        if (!failed)
            leat_group_finish(&s->group, &decoders, &w->group_options);
        pthread_mutex_lock(&w->lock);
        s->stage = DONE;
        write_ready(w);
    }
    pthread_mutex_unlock(&w->lock);
    leat_decoders_destroy(&decoders);
    return NULL;
}

/* Hands the group that was filled to the workers. */
static int submit(struct leat_writer *w, struct leat_error *error)
{
    int rc = LEAT_OK;
    pthread_mutex_lock(&w->lock);
    w->slots[w->made % w->n_slots].stage = WAITING;
    w->made++;
    w->filling = false;
    if (!w->idle && w->n_threads < w->max_threads) { /* as groups arrive: a small file needs one thread */
        int failed = leat_thread_start(&w->threads[w->n_threads], work, w);
        w->n_threads += !failed;
        if (failed && !w->n_threads) {
            w->made--;
            w->slots[w->made % w->n_slots].stage = FREE;
            errno = failed;
            rc = leat_fail_errno(error, LEAT_E_NOMEM, "no thread could be started");
        }
    }
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

/* The group being filled; waits for a free one. Returns the failure of any earlier group. */
static int filling_group(struct leat_writer *w, struct leat_group **out, struct leat_error *error)
{
    int rc = LEAT_OK;
    pthread_mutex_lock(&w->lock);
    struct slot *s = &w->slots[w->made % w->n_slots];
    while (!w->status && !w->filling && s->stage != FREE)
        pthread_cond_wait(&w->progress, &w->lock);
    if (w->status) {
        rc = w->status;
        if (error)
            *error = w->error;
    } else if (!w->filling) {
        if (leat_group_begin(&s->group, w->given))
            w->filling = true;
        else
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a group of samples");
    }
    pthread_mutex_unlock(&w->lock);
    *out = &s->group;
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int check_metadata(const char *metadata, struct leat_error *error)
{
    const size_t n = strlen(metadata), good = leat_json_check(metadata, n);
    if (good == n && metadata[strspn(metadata, " \t\r\n")] == '{')
        return LEAT_OK;
    return leat_fail(error, LEAT_E_INVALID, "the metadata must be a JSON object: byte %zu is wrong", good);
}

static int copy_strings(struct leat_writer *w, const struct leat_writer_options *in, struct leat_error *error)
{
    w->metadata = leat_strdup(in->metadata ? in->metadata : "{}");
    w->classes = leat_new_array(in->n_classes, sizeof *w->classes);
    if (!w->metadata || !w->classes)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a writer");
    const int rc = check_metadata(w->metadata, error);
    if (rc)
        return rc;
    for (size_t i = 0; i < in->n_classes; i++) {
        if (!in->classes || !in->classes[i] ||
            leat_utf8_check(in->classes[i], strlen(in->classes[i])) != strlen(in->classes[i]))
            return leat_fail(error, LEAT_E_INVALID, "the name of class %zu is not UTF-8 text", i);
        if (!(w->classes[i] = leat_strdup(in->classes[i])))
            return leat_fail(error, LEAT_E_NOMEM, "no memory for a writer");
    }
    w->options.classes = (const char *const *)w->classes;
    return LEAT_OK;
}

static int take_options(struct leat_writer *w, const struct leat_writer_options *in, struct leat_error *error)
{
    const struct leat_writer_options defaults = LEAT_WRITER_OPTIONS_INIT;
    w->options = defaults;
    if (in && in->struct_size < sizeof in->struct_size)
        return leat_fail(error, LEAT_E_INVALID, "struct_size of the options is not set: use LEAT_WRITER_OPTIONS_INIT");
    if (in)
        memcpy(&w->options, in, in->struct_size < sizeof *in ? in->struct_size : sizeof *in);
    struct leat_writer_options *o = &w->options;
    if ((int)o->on_bad < LEAT_BAD_MARK || o->on_bad > LEAT_BAD_RAISE || o->quality > 100 || o->n_classes > UINT32_MAX)
        return leat_fail(error, LEAT_E_INVALID, "on_bad is MARK, SKIP or RAISE, quality at most 100");
    if ((int)o->photos < LEAT_PHOTOS_ORIGINAL || o->photos > LEAT_PHOTOS_RAW)
        return leat_fail(error, LEAT_E_INVALID, "photos is ORIGINAL, FAST or RAW");
    o->quality = o->quality ? o->quality : 90;
    w->max_threads = o->num_threads ? o->num_threads : leat_cpu_count();
    if (w->max_threads > 1024)
        w->max_threads = 1024;
    w->group_options = (struct leat_group_options){o->check, o->lenient, o->on_bad, o->max_side, o->quality, o->photos};
    return copy_strings(w, o, error);
}

/* Photos that may be resized are no longer the folder's files, byte for byte. */
static int take_schema(struct leat_writer *w, const struct leat_field *fields, size_t n, struct leat_error *error)
{
    struct leat_field *copy = n && n <= LEAT_STORE_MAX_FIELDS ? leat_new_array(n, sizeof *copy) : NULL;
    if (!copy)
        return n && n <= LEAT_STORE_MAX_FIELDS
                   ? leat_fail(error, LEAT_E_NOMEM, "no memory for a schema")
                   : leat_fail(error, LEAT_E_INVALID, "a schema has 1 to %d fields", LEAT_STORE_MAX_FIELDS);
    unsigned pixels = 0;
    memcpy(copy, fields, n * sizeof *copy);
    for (size_t f = 0; f < n; f++) {
        if (w->options.max_side && leat_codec_of(copy[f].kind))
            copy[f].flags &= ~LEAT_FIELD_FILES;
        pixels |= copy[f].flags & LEAT_FIELD_PIXELS;
        if (w->options.photos == LEAT_PHOTOS_RAW) /* some are then made of a file */
            copy[f].flags &= ~LEAT_FIELD_PIXELS;
    }
    int rc = leat_store_layout_init(&w->layout, copy, n, error);
    for (uint32_t f = 0; !rc && f < w->layout.n_stored; f++) {
        const struct leat_codec *codec = w->layout.info[f].codec;
        if (codec && w->options.max_side && !codec->shrink)
            rc = leat_fail(error, LEAT_E_UNSUPPORTED, "a %s cannot be made smaller: leave max_side at 0", codec->name);
        else if (codec && w->options.photos && !codec->pack)
            rc = leat_fail(error, LEAT_E_UNSUPPORTED, "a %s can only be stored unchanged: leave photos at ORIGINAL",
                           codec->name);
    }
    w->layout.features = w->layout.n_encoded && (w->options.photos || pixels) ? LEAT_FEATURE_FORMS : 0;
    leat_free(copy);
    return rc;
}

static int make_slots(struct leat_writer *w, struct leat_error *error)
{
    w->n_slots = (uint64_t)w->max_threads + 2;
    w->slots = leat_new_array(w->n_slots, sizeof *w->slots);
    w->threads = leat_new_array(w->max_threads, sizeof *w->threads);
    w->boxes = leat_new_array(w->layout.n_stored, sizeof *w->boxes);
    bool ok = w->slots && w->threads && w->boxes;
    for (uint64_t i = 0; i < w->n_slots && ok; i++)
        ok = leat_group_init(&w->slots[i].group, &w->layout) == LEAT_OK;
    return ok ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a writer with %u threads", w->max_threads);
}

int leat_writer_open(const char *path, const struct leat_field *fields, size_t n_fields,
                     const struct leat_writer_options *options, struct leat_writer **out, struct leat_error *error)
{
    *out = NULL;
    leat_log_check();
    leat_error_clear(error);
    struct leat_writer *w = leat_new(struct leat_writer);
    if (!w)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a writer");
    w->target.main.fd = w->target.shard.fd = -1;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->work, NULL);
    pthread_cond_init(&w->progress, NULL);
    int rc = path && *path && fields ? LEAT_OK : leat_fail(error, LEAT_E_INVALID, "a writer needs a path and a schema");
    if (!rc)
        rc = take_options(w, options, error);
    if (!rc)
        rc = take_schema(w, fields, n_fields, error);
    if (!rc && w->options.shard_bytes && leat_utf8_check(path, strlen(path)) != strlen(path))
        rc = leat_fail(error, LEAT_E_INVALID,
                       "the path of a sharded data set must be UTF-8 text: its manifest names the shards");
    if (!rc)
        rc = make_slots(w, error);
    if (!rc) {
        w->target.identity = leat_identity_of(&w->options, &w->layout, w->metadata);
        w->target.on_note = add_bad;
        w->target.user = w;
        rc = leat_target_open(&w->target, path, &w->layout, &w->options, w->metadata, error);
    }
    if (rc) {
        leat_writer_free(w, true);
        return rc;
    }
    w->given = w->resumed = w->target.inputs;
    update_progress(w);
    *out = w;
    return LEAT_OK;
}

/* ---- adding ---------------------------------------------------------------------------------- */

uint64_t leat_writer_count(const struct leat_writer *w)
{
    return w->given;
}

void leat_writer_progress(const struct leat_writer *w, struct leat_writer_progress *out)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&w->lock;
    pthread_mutex_lock(lock);
    *out = w->progress_now;
    pthread_mutex_unlock(lock);
}

static int check_sample(const struct leat_writer *w, const struct leat_value_ref *values, struct leat_error *error)
{
    if (w->finished)
        return leat_fail(error, LEAT_E_INVALID, "the writer has finished: open a new one to write more");
    if (w->given >= INT64_MAX)
        return leat_fail(error, LEAT_E_RANGE, "a data set has fewer than 2^63 samples");
    for (uint32_t f = 0; f < w->layout.n_stored; f++) {
        const struct leat_value_ref *v = &values[f];
        int rc;
        if (v->path && !w->layout.info[f].varying)
            rc = leat_fail(error, LEAT_E_INVALID, "field '%s' has a fixed size: give its value as data, not as a path",
                           w->layout.names[f]);
        else if (!v->path && !v->data && v->length)
            rc = leat_fail(error, LEAT_E_INVALID, "field '%s' has neither data nor a path", w->layout.names[f]);
        else if ((int64_t)f == w->layout.name_field && w->layout.has_files && v->path)
            rc = leat_fail(error, LEAT_E_INVALID, "field 'name' cannot be given by a path: give the text");
        else
            rc = leat_group_check_value(&w->layout, f, v->path ? NULL : v->data ? v->data : "", v->length, error);
        if (rc) {
            leat_error_at_sample(error, (int64_t)w->given, w->layout.names[f]);
            return rc;
        }
    }
    return LEAT_OK;
}

int leat_writer_add(struct leat_writer *w, const struct leat_value_ref *values, uint64_t *id, struct leat_error *error)
{
    struct leat_group *group;
    int rc = check_sample(w, values, error);
    if (!rc)
        rc = filling_group(w, &group, error);
    if (rc)
        return rc;
    uint64_t cost = leat_group_cost(&w->layout, values);
    const bool raw = w->layout.n_encoded && w->options.photos == LEAT_PHOTOS_RAW;
    const uint64_t full = raw ? LEAT_STORE_RAW_GROUP_BYTES : LEAT_STORE_GROUP_BYTES;
    if (group->n_inputs && (group->input_bytes + cost > full && w->layout.n_varying)) {
        rc = submit(w, error);
        if (!rc)
            rc = filling_group(w, &group, error);
        if (rc)
            return rc;
    }
    rc = leat_group_add(group, values, error);
    if (rc)
        goto fail;
    if (id)
        *id = w->given;
    w->given++;
    if (group->n_inputs == leat_group_room(&w->layout))
        return submit(w, error);
    return LEAT_OK;
fail: /* the group may hold half a sample: no more can be added after it */
    pthread_mutex_lock(&w->lock);
    w->status = rc;
    leat_fail(&w->error, rc, "an earlier sample could not be added: free the writer and resume");
    pthread_mutex_unlock(&w->lock);
    return rc;
}

int leat_writer_add_columns(struct leat_writer *w, const void *const *columns, uint64_t n, struct leat_error *error)
{
    if (w->layout.n_varying)
        return leat_fail(error, LEAT_E_INVALID,
                         "columns can be added only where all fields have a fixed size: use leat_writer_add");
    if (w->finished || n > INT64_MAX - w->given)
        return leat_fail(error, LEAT_E_INVALID, "the writer has finished, or a data set would have 2^63 samples");
    for (uint32_t f = 0; f < w->layout.n_stored; f++) {
        if (!columns[f] && n)
            return leat_fail(error, LEAT_E_INVALID, "field '%s' has no data", w->layout.names[f]);
        for (uint64_t i = 0; i < n && w->layout.fields[f].dtype == LEAT_BOOL; i++) {
            int rc = leat_group_check_value(&w->layout, f, (const uint8_t *)columns[f] + i * w->layout.info[f].width,
                                            w->layout.info[f].width, error);
            if (rc) {
                leat_error_at_sample(error, (int64_t)(w->given + i), w->layout.names[f]);
                return rc;
            }
        }
    }
    const uint32_t room = leat_group_room(&w->layout);
    for (uint64_t done = 0; done < n;) {
        struct leat_group *group;
        int rc = filling_group(w, &group, error);
        if (rc)
            return rc;
        uint64_t left = room - group->n_inputs, part = n - done < left ? n - done : left;
        rc = leat_group_add_columns(group, columns, done, (uint32_t)part, error);
        if (rc) {
            pthread_mutex_lock(&w->lock);
            w->status = rc;
            leat_fail(&w->error, rc, "earlier samples could not be added: free the writer and resume");
            pthread_mutex_unlock(&w->lock);
            return rc;
        }
        w->given += part;
        done += part;
        if (group->n_inputs == room && (rc = submit(w, error)))
            return rc;
    }
    return LEAT_OK;
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void stop_threads(struct leat_writer *w)
{
    pthread_mutex_lock(&w->lock);
    w->ending = true;
    pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < w->n_threads; i++)
        pthread_join(w->threads[i], NULL);
    w->n_threads = 0;
}

int leat_writer_finish(struct leat_writer *w, struct leat_error *error)
{
    return leat_writer_finish_as(w, NULL, error);
}

/* Whether a file has the classes of its source. If these are apart, the fingerprint does not tell. */
static bool has_classes_of(const struct leat_writer_options *o, const struct leat_writer_source *source)
{
    bool same = o->n_classes == source->n_classes;
    for (size_t c = 0; c < source->n_classes && same; c++)
        same = strcmp(o->classes[c], source->classes[c]) == 0;
    return same;
}

int leat_writer_convert(struct leat_writer *w, const struct leat_writer_source *source, struct leat_error *error)
{
    const struct leat_writer_options *o = &w->options;
    uint8_t own[16];
    char name[33];
    if (w->finished)
        return leat_fail(error, LEAT_E_INVALID, "the writer has finished already");
    if (o->on_bad == LEAT_BAD_SKIP || o->max_side)
        return leat_fail(error, LEAT_E_INVALID,
                         "a file that leaves photos out or resizes them is no conversion: leave on_bad and max_side");
    if (w->target.converts)
        return leat_fail(error, LEAT_E_INVALID, "the file is a conversion already: it has one source");
    if (w->given > w->resumed)
        return leat_fail(error, LEAT_E_INVALID,
                         "%" PRIu64 " samples were added before: a conversion has the samples of its source alone",
                         w->given - w->resumed);
    /* The header has a hash of the source_id, which a resume has compared. */
    leat_json_fingerprint(source->fingerprint, name);
    if (w->resumed && !(o->source_id && strstr(o->source_id, name)))
        return leat_fail(error, LEAT_E_INVALID,
                         "the samples that are resumed may be those of another data set: a conversion goes on if it "
                         "was begun with a source_id that holds the fingerprint of its source, %s",
                         name);
    if (!has_classes_of(o, source))
        return leat_fail(error, LEAT_E_INVALID,
                         "the file is no conversion of the data set, which has other classes: %zu, and the file %zu",
                         source->n_classes, o->n_classes);
    leat_fingerprint_finish(w->layout.fields, w->layout.n_stored, o->classes, source->classes_apart ? 0 : o->n_classes,
                            source->count, source->sums, own);
    if (memcmp(own, source->fingerprint, sizeof own) != 0)
        return leat_fail(
            error, LEAT_E_INVALID,
            "the file is no conversion of the data set, which has other fields, or files of a folder or of "
            "a tar as values, which leat convert writes");
    w->target.converts = true;
    w->target.converted_count = source->count;
    w->target.conversion = (struct leat_store_conversion){.sums = {source->sums[0], source->sums[1]},
                                                          .classes_apart = source->classes_apart};
    return LEAT_OK;
}

int leat_writer_finish_as(struct leat_writer *w, const char *metadata, struct leat_error *error)
{
    int rc = LEAT_OK;
    char *copy = NULL;
    if (w->finished)
        return leat_fail(error, LEAT_E_INVALID, "the writer has finished already");
    if (w->target.converts && w->given != w->target.converted_count)
        return leat_fail(error, LEAT_E_INVALID,
                         "the file has %" PRIu64 " samples, and the data set that it is converted from %" PRIu64,
                         w->given, w->target.converted_count);
    if (metadata && (rc = check_metadata(metadata, error)))
        return rc;
    if (metadata && !(copy = leat_strdup(metadata)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the metadata");
    pthread_mutex_lock(&w->lock);
    const bool waiting = w->filling && !w->status;
    pthread_mutex_unlock(&w->lock);
    if (waiting)
        rc = submit(w, error);
    stop_threads(w);
    w->finished = true;
    if (!rc && w->status) {
        rc = w->status;
        if (error)
            *error = w->error;
    }
    if (copy) { /* no thread uses them any more */
        leat_free(w->metadata);
        w->target.metadata = w->metadata = copy;
    }
    if (!rc)
        rc = leat_target_finish(&w->target, error);
    if (!rc)
        update_progress(w);
    return rc;
}

void leat_writer_free(struct leat_writer *w, bool keep_partial)
{
    if (!w)
        return;
    if (!w->finished && w->n_threads) {
        pthread_mutex_lock(&w->lock);
        if (!w->status && !keep_partial) { /* the rest is not wanted any more */
            w->status = LEAT_E_CANCELLED;
            leat_fail(&w->error, LEAT_E_CANCELLED, "the writer was ended");
        }
        pthread_mutex_unlock(&w->lock);
        stop_threads(w);
    }
    leat_target_destroy(&w->target, keep_partial);
    for (uint64_t i = 0; w->slots && i < w->n_slots; i++)
        if (w->slots[i].group.layout)
            leat_group_destroy(&w->slots[i].group);
    leat_free(w->slots);
    leat_free(w->threads);
    leat_free(w->boxes);
    for (size_t i = 0; i < w->n_bad; i++) {
        leat_free((char *)w->bad[i].name);
        leat_free((char *)w->bad[i].reason);
    }
    leat_free(w->bad);
    drop_tally(&w->as_came);
    drop_tally(&w->warned);
    for (size_t i = 0; w->classes && i < w->options.n_classes; i++)
        leat_free(w->classes[i]);
    leat_free(w->classes);
    leat_free(w->metadata);
    leat_store_layout_destroy(&w->layout);
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->progress);
    pthread_mutex_destroy(&w->lock);
    leat_free(w);
}
