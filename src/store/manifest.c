/*
 * Manifests are written by hand (fixed text, fixed order, so that equal data give equal bytes) and read by jansson,
 * after the checksum has shown that the text is the one that was written.
 */
#include "store/manifest.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "format/fingerprint.h"
#include "io/file.h"
#include "io/paths.h"
#include "store/growing.h"
#include "store/reader.h"

#define HEAD LEAT_MANIFEST_HEAD
#define CHECKSUM_WORD "\"checksum\": \""
enum { TAIL_BYTES = sizeof CHECKSUM_WORD - 1 + 16 + 3 }; /* the word, 16 digits, quote, brace, newline */
#define MAX_MANIFEST_BYTES (UINT64_C(1) << 28)

bool leat_manifest_recognise(const uint8_t *head, size_t n)
{
    return n >= sizeof HEAD - 1 && !memcmp(head, HEAD, sizeof HEAD - 1);
}

void leat_manifest_destroy(struct leat_manifest *m)
{
    for (size_t i = 0; m->shards && i < m->n_shards; i++)
        leat_free(m->shards[i].file);
    leat_free(m->shards);
    memset(m, 0, sizeof *m);
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool add_text(struct leat_growing *g, const char *text)
{
    return leat_growing_append(g, text, strlen(text));
}

static bool add_quoted(struct leat_growing *g, const char *text)
{
    bool ok = add_text(g, "\"");
    for (; *text && ok; text++) {
        char piece[8] = {*text};
        if (*text == '"' || *text == '\\')
            snprintf(piece, sizeof piece, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            snprintf(piece, sizeof piece, "\\u%04x", (unsigned)*text);
        ok = add_text(g, piece);
    }
    return ok && add_text(g, "\"");
}

int leat_manifest_text(const struct leat_manifest *m, char **text, size_t *length, struct leat_error *error)
{
    struct leat_growing g = {0};
    char line[256];
    *text = NULL;
    bool ok = add_text(&g, HEAD ", \"version\": 1,\n \"shards\": [\n");
    for (size_t i = 0; i < m->n_shards && ok; i++) {
        const struct leat_manifest_shard *s = &m->shards[i];
        snprintf(line, sizeof line,
                 ", \"count\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"sums\": [\"%016" PRIx64 "\", \"%016" PRIx64
                 "\"], \"footer\": \"%016" PRIx64 "\"}%s\n",
                 s->count, s->bytes, s->sums[0], s->sums[1], s->footer, i + 1 < m->n_shards ? "," : "");
        ok = add_text(&g, "  {\"file\": ") && add_quoted(&g, s->file) && add_text(&g, line);
    }
    ok = ok && add_text(&g, " ],\n ");
    if (ok && m->converted) {
        const struct leat_store_conversion *c = &m->conversion;
        snprintf(line, sizeof line,
                 "\"source\": {\"sums\": [\"%016" PRIx64 "\", \"%016" PRIx64 "\"], \"values\": [\"%016" PRIx64
                 "\", \"%016" PRIx64 "\"], \"classes_apart\": %s},\n ",
                 c->sums[0], c->sums[1], c->values[0], c->values[1], c->classes_apart ? "true" : "false");
        ok = add_text(&g, line);
    }
    if (ok) {
        snprintf(line, sizeof line, CHECKSUM_WORD "%016" PRIx64 "\"}\n", leat_hash64(g.data, g.length));
        ok = add_text(&g, line);
    }
    *length = g.length;
    if (!ok || !leat_growing_append(&g, "", 1)) {
        leat_growing_destroy(&g);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a manifest of %zu shards", m->n_shards);
    }
    *text = (char *)g.data;
    return LEAT_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_hex(const json_t *value, uint64_t *out)
{
    const char *text = json_string_value(value);
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return false;
    *out = 0;
    for (; *text; text++)
        *out = *out << 4 | (uint64_t)(*text <= '9' ? *text - '0' : *text - 'a' + 10);
    return true;
}

/* A manifest must not make a program open files elsewhere. */
static bool name_is_local(const char *file)
{
    return file && *file && !strchr(file, '/') && strcmp(file, ".") && strcmp(file, "..") && strlen(file) <= NAME_MAX;
}

static bool read_sums(const json_t *list, uint64_t out[2])
{
    return json_array_size(list) == 2 && read_hex(json_array_get(list, 0), &out[0]) &&
           read_hex(json_array_get(list, 1), &out[1]);
}

static int read_shard(const json_t *object, struct leat_manifest_shard *s, struct leat_error *error)
{
    const char *file = json_string_value(json_object_get(object, "file"));
    if (!name_is_local(file))
        return leat_fail(error, LEAT_E_CORRUPT,
                         "the manifest names '%.100s': a shard is a file in the manifest's own folder",
                         file ? file : "");
    if (!leat_json_number(json_object_get(object, "count"), INT64_MAX, &s->count) ||
        !leat_json_number(json_object_get(object, "bytes"), INT64_MAX, &s->bytes) ||
        !read_sums(json_object_get(object, "sums"), s->sums) ||
        !read_hex(json_object_get(object, "footer"), &s->footer))
        return leat_fail(error, LEAT_E_CORRUPT, "the manifest's entry of shard '%s' lacks a number", file);
    s->file = leat_strdup(file);
    return s->file ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a manifest");
}

/* The data set that the shards were converted from, if the manifest names one. */
static int read_source(const json_t *source, struct leat_manifest *m, struct leat_error *error)
{
    struct leat_store_conversion *c = &m->conversion;
    const json_t *apart = json_object_get(source, "classes_apart");
    if (!source)
        return LEAT_OK;
    if (!json_is_object(source))
        return leat_fail(error, LEAT_E_CORRUPT, "the manifest's entry of the source is no object");
    if (!read_sums(json_object_get(source, "sums"), c->sums) ||
        !read_sums(json_object_get(source, "values"), c->values))
        return leat_fail(error, LEAT_E_CORRUPT, "the manifest's entry of the source lacks a number");
    if (!json_is_boolean(apart))
        return leat_fail(error, LEAT_E_CORRUPT,
                         "the manifest's entry of the source does not say whether its classes are apart");
    if (memcmp(c->values, m->sums, sizeof c->values) != 0)
        return leat_fail(error, LEAT_E_CORRUPT,
                         "the manifest has the fingerprint of the source of other shards than these: convert it again");
    c->classes_apart = json_is_true(apart);
    m->converted = true;
    return LEAT_OK;
}

static int read_root(const json_t *root, struct leat_manifest *m, struct leat_error *error)
{
    const json_t *shards = json_object_get(root, "shards"), *version = json_object_get(root, "version");
    if (!json_is_integer(version) || json_integer_value(version) != 1)
        return leat_fail(error, LEAT_E_FORMAT,
                         "the manifest has a version that this leat does not know: use a newer leat");
    if (!json_is_array(shards) || json_array_size(shards) == 0)
        return leat_fail(error, LEAT_E_CORRUPT, "the manifest names no shards");
    m->n_shards = json_array_size(shards);
    m->shards = leat_new_array(m->n_shards, sizeof *m->shards);
    if (!m->shards)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a manifest of %zu shards", m->n_shards);
    for (size_t i = 0; i < m->n_shards; i++) {
        struct leat_manifest_shard *s = &m->shards[i];
        int rc = read_shard(json_array_get(shards, i), s, error);
        if (rc)
            return rc;
        if (!leat_add_u64(m->count, s->count, &m->count) || m->count > INT64_MAX)
            return leat_fail(error, LEAT_E_CORRUPT, "the manifest counts more than 2^63 samples");
        leat_fingerprint_join(m->sums, s->sums, s->count);
    }
    return read_source(json_object_get(root, "source"), m, error);
}

int leat_manifest_parse(const char *text, size_t length, struct leat_manifest *m, struct leat_error *error)
{
    memset(m, 0, sizeof *m);
    if (!leat_manifest_recognise((const uint8_t *)text, length))
        return leat_fail(error, LEAT_E_FORMAT, "this is not a manifest of leat");
    char expected[TAIL_BYTES + 1];
    snprintf(expected, sizeof expected, CHECKSUM_WORD "%016" PRIx64 "\"}\n",
             length >= TAIL_BYTES ? leat_hash64(text, length - TAIL_BYTES) : 0);
    if (length < TAIL_BYTES || memcmp(text + length - TAIL_BYTES, expected, TAIL_BYTES))
        return leat_fail(error, LEAT_E_CORRUPT,
                         "the manifest was cut or altered: its checksum does not fit. Restore it, or pack again; to "
                         "join other files open "
                         "a list of them");
    json_error_t where;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
    int rc =
        root ? read_root(root, m, error) : leat_fail(error, LEAT_E_CORRUPT, "the manifest is not JSON: %s", where.text);
    json_decref(root);
    if (rc)
        leat_manifest_destroy(m);
    return rc;
}

int leat_manifest_read(const char *path, struct leat_manifest *m, struct leat_error *error)
{
    struct leat_io_file *file = NULL;
    char *text = NULL;
    memset(m, 0, sizeof *m);
    int rc = leat_io_open(path, &file, error);
    if (rc)
        return rc;
    if (file->size > MAX_MANIFEST_BYTES) {
        rc = leat_fail(error, LEAT_E_FORMAT, "the file is too long for a manifest of leat");
        goto out;
    }
    text = leat_alloc(file->size);
    rc = text ? leat_io_read(file, 0, file->size, text, error)
              : leat_fail(error, LEAT_E_NOMEM, "no memory for a manifest");
    if (!rc)
        rc = leat_manifest_parse(text, file->size, m, error);
out:
    if (rc)
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
    leat_free(text);
    leat_io_release(file);
    return rc;
}

char *leat_manifest_shard_path(const char *manifest_path, const char *file)
{
    const char *slash = strrchr(manifest_path, '/');
    size_t folder = slash ? (size_t)(slash - manifest_path) + 1 : 0, n = strlen(file);
    char *path = leat_alloc(folder + n + 1);
    if (!path)
        return NULL;
    memcpy(path, manifest_path, folder);
    memcpy(path + folder, file, n + 1);
    return path;
}

int leat_manifest_check_shard(const struct leat_manifest_shard *s, const struct leat_source *source,
                              struct leat_error *error)
{
    uint64_t bytes, footer;
    leat_store_file_facts(source, &bytes, &footer);
    if (s->count == source->count && s->bytes == bytes && s->footer == footer && s->sums[0] == source->fingerprint[0] &&
        s->sums[1] == source->fingerprint[1])
        return LEAT_OK;
    return leat_fail_at(error, LEAT_E_CHANGED, source->path, LEAT_NO_OFFSET,
                        "this shard is not the one that its manifest means: pack again, or restore both together");
}
