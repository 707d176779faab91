/*
 * leat_dataset_about: the containers behind a data set, as JSON for people and programs; leat_dataset_place: the place
 * of a sample in them.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/known.h"
#include "data/internal.h"
#include "format/fingerprint.h"

enum { SHOWN_LEFT_OUT = 10 };

/* A path, escaped if it is not UTF-8. NULL: there is none. */
static json_t *path_json(const char *path)
{
    json_t *found = json_string(path);
    const size_t room = found || !path ? 0 : 4 * strlen(path) + 1;
    char *shown = room ? leat_new_array(room, 1) : NULL;
    if (shown)
        found = json_string(leat_escape(path, shown, room));
    leat_free(shown);
    return found;
}

/* Whether a file's records were counted before: a data set may be joined to itself. */
static bool is_counted(const struct leat_source *source, json_t *seen)
{
    const char *path = source->path ? source->path : "";
    char *name = leat_new_array(strlen(path) + 33, 1);
    if (!name)
        return false;
    leat_json_fingerprint((const uint8_t *)source->fingerprint, name);
    memcpy(name + 32, path, strlen(path) + 1);
    const bool counted = json_object_get(seen, name);
    json_object_set_new_nocheck(seen, name, json_true());
    leat_free(name);
    return counted;
}

/* Appends the first records that a source has left out. */
static void add_left_out(struct leat_source *source, json_t *list)
{
    struct leat_source_left_out one;
    for (uint64_t i = 0; json_array_size(list) < SHOWN_LEFT_OUT && source->v->left_out; i++) {
        if (!source->v->left_out(source, i, &one))
            break;
        json_t *line = json_pack("{s:I, s:I, s:s}", "line", (json_int_t)one.line, "byte", (json_int_t)one.offset,
                                 "reason", one.reason);
        json_object_set_new(line, "file", path_json(one.path));
        json_array_append_new(list, line);
    }
}

/* The sources of a base in their order, with those of joined bases. */
static int add_sources(const struct leat_base *base, json_t *shards, json_t *left_out, json_t *seen,
                       const char **format, struct leat_source_about *total, struct leat_error *error)
{
    for (size_t i = 0; i < base->n_joined; i++) {
        int rc = add_sources(base->joined[i], shards, left_out, seen, format, total, error);
        if (rc)
            return rc;
    }
    for (size_t i = 0; i < base->n_owned; i++) {
        struct leat_source *source = base->owned[i];
        struct leat_source_about about = {.broken = UINT64_MAX};
        json_t *shard = json_pack("{s:s, s:I}", "path", source->path, "count", (json_int_t)source->count);
        if (!shard)
            shard = json_pack("{s:I}", "count", (json_int_t)source->count); /* a path that is not UTF-8 */
        if (source->v->about) {
            int rc = source->v->about(source, &about, error);
            if (rc) {
                json_decref(shard);
                return rc;
            }
            json_object_set_new(shard, "bytes", json_integer((json_int_t)about.bytes));
        }
        if (json_array_append_new(shards, shard))
            return leat_fail(error, LEAT_E_NOMEM, "no memory to describe the data set");
        if (about.skipped && !is_counted(source, seen)) {
            total->skipped += about.skipped;
            add_left_out(source, left_out);
        }
        bool first = !*format;
        total->bytes += about.bytes;
        total->endless += about.endless;
        for (unsigned form = 0; form < LEAT_FORMS; form++) {
            const bool counted = !about.photos[form] ||
                                 about.photo_bytes[form]; /* a file has no count if all its photos are as they came */
            total->photos[form] += about.photos[form];
            total->photo_bytes[form] = counted && total->photo_bytes[form] != UINT64_MAX
                                           ? total->photo_bytes[form] + about.photo_bytes[form]
                                           : UINT64_MAX;
            total->original_bytes[form] += about.original_bytes[form];
        }
        total->broken =
            total->broken == UINT64_MAX || about.broken == UINT64_MAX ? UINT64_MAX : total->broken + about.broken;
        leat_box_counts_join(&total->boxes, &about.boxes);
        total->version = first || total->version == about.version ? about.version : 0;
        *format = first || strcmp(*format, source->v->name) == 0 ? source->v->name : "mixed";
    }
    return LEAT_OK;
}

/* The number of photos in each form, and their bytes if they were counted. */
static json_t *photos_json(const struct leat_source_about *total)
{
    static const char *const names[LEAT_FORMS] = {"original", "fast", "raw"};
    json_t *photos = json_object();
    for (unsigned form = 0; form < LEAT_FORMS; form++) {
        if (!total->photos[form])
            continue;
        json_t *one = json_pack("{s:I}", "count", (json_int_t)total->photos[form]);
        if (total->photo_bytes[form] != UINT64_MAX) {
            json_object_set_new(one, "bytes", json_integer((json_int_t)total->photo_bytes[form]));
            json_object_set_new(one, "original_bytes", json_integer((json_int_t)total->original_bytes[form]));
        }
        json_object_set_new(photos, names[form], one);
    }
    return photos;
}

/* For annotations. */
static json_t *boxes_json(const struct leat_box_counts *n)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "count", (json_int_t)n->count, "cut", (json_int_t)n->cut, "outside",
                     (json_int_t)n->outside, "empty", (json_int_t)n->empty, "not_finite", (json_int_t)n->not_finite);
}

int leat_dataset_about(const struct leat_dataset *d, char **out, struct leat_error *error)
{
    struct leat_source_about total = {0};
    const char *format = NULL;
    char *text = NULL;
    json_t *about = json_object(), *shards = json_array(), *left_out = json_array(), *seen = json_object();
    *out = NULL;
    int rc = add_sources(d->base, shards, left_out, seen, &format, &total, error);
    if (rc)
        goto out;
    json_object_set_new(about, "format", json_string(format));
    if (total.version)
        json_object_set_new(about, "format_version", json_integer((json_int_t)total.version));
    json_object_set_new(about, "bytes", json_integer((json_int_t)total.bytes));
    if (total.broken != UINT64_MAX)
        json_object_set_new(about, "broken", json_integer((json_int_t)total.broken));
    if (total.skipped)
        json_object_set_new(about, "skipped", json_integer((json_int_t)total.skipped));
    if (json_array_size(left_out))
        json_object_set(about, "skipped_first", left_out);
    if (total.endless)
        json_object_set_new(about, "endless", json_integer((json_int_t)total.endless));
    if (total.boxes.count)
        json_object_set_new(about, "boxes", boxes_json(&total.boxes));
    json_t *photos = photos_json(&total);
    if (json_object_size(photos))
        json_object_set(about, "photos", photos);
    json_decref(photos);
    if (d->base->converted && d->base->values_known) {
        uint8_t print[16];
        char name[33];
        const struct leat_base *b = d->base;
        leat_fingerprint_finish(b->fields, b->n_fields, b->classes, b->n_classes, b->count, b->values, print);
        leat_json_fingerprint(print, name);
        json_object_set_new(about, "fingerprint_of_values", json_string(name));
    }
    json_object_set(about, "shards", shards);
    text = json_dumps(about, JSON_COMPACT);
    if (!text || !(*out = leat_strdup(text)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to describe the data set");
out:
    free(text);
    json_decref(shards);
    json_decref(left_out);
    json_decref(seen);
    json_decref(about);
    return rc;
}

const char *leat_dataset_path(const struct leat_dataset *d)
{
    const struct leat_source *first = d->base->n_parts ? d->base->parts[0].source : NULL;
    return first && first->path ? first->path : "";
}

int leat_dataset_no_field(const struct leat_dataset *d, const char *name, const char *what, struct leat_error *error)
{
    const struct leat_known there = leat_known_fields(d->base->fields, d->base->n_fields);
    const char *path = leat_dataset_path(d);
    return leat_fail_name(error, LEAT_E_NOT_FOUND, &there, name, "%s%s has no field \"%.64s\"%s",
                          *path ? path : "the data set", *path && d->base->n_parts > 1 ? " and what follows it" : "",
                          name, what);
}

int leat_dataset_place(const struct leat_dataset *d, uint64_t position, size_t field, struct leat_sample_place *out,
                       struct leat_error *error)
{
    struct leat_sample_ref ref;
    *out = (struct leat_sample_place){.path = ""};
    if (position >= d->count || field >= d->base->n_fields)
        return leat_fail(error, LEAT_E_RANGE, "there is no sample %" PRIu64 " with a field number %zu", position,
                         field);
    leat_dataset_locate(d, &position, 1, &ref);
    leat_ref_resolve(&ref, &field);
    out->path = ref.source->path ? ref.source->path : "";
    out->sample = ref.sample;
    return ref.source->v->place ? ref.source->v->place(ref.source, ref.sample, out, error) : LEAT_OK;
}
