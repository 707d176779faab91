/*
 * NaN and Infinity are numbers for records, since Python writes them, but no JSON. So a record is broken where a field
 * keeps a value with one of them as JSON. Which fields do is only known when a file is opened, and not part of its
 * index: that says whether a property has such numbers at all. If it does, which is rare, the records are walked
 * through once more.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "format/jsonl.h"
#include "io/interrupt.h"

void leat_jsonl_want_below(const struct leat_property_tree *t, uint8_t *wanted)
{
    for (size_t node = t->n; --node;) { /* children stand behind their parents */
        uint8_t *parent = &wanted[t->nodes[node].parent];
        if (wanted[node] && (*parent == LEAT_WISH_NONE || *parent == LEAT_WISH_WHOLE))
            *parent = *parent ? LEAT_WISH_BOTH : LEAT_WISH_BELOW;
    }
}

struct judge {
    struct leat_text_file *text;
    struct leat_record_walk walk;
    uint8_t *wanted, *buffer;
    size_t room;
    struct leat_text_bad *bad;
    size_t n_bad, bad_room;
    uint64_t line, behind; /* of the last record: its number from 1, and where it ended */
    uint64_t sums[2];
};

static bool pass(void *user, const struct leat_record_leaf *leaf)
{
    return true;
}

/* Whether some record has such a number in a value that is kept. */
static int is_needed(const struct leat_text_index *x, const uint8_t *wanted, bool *needed)
{
    bool *inside = leat_new_array(x->tree.n, sizeof *inside);
    *needed = false;
    for (size_t node = 1; inside && node < x->tree.n; node++) {
        inside[node] = wanted[node] >= LEAT_WISH_WHOLE || inside[x->tree.nodes[node].parent];
        *needed = *needed || (inside[node] && x->properties[node].nan);
    }
    leat_free(inside);
    return inside ? LEAT_OK : LEAT_E_NOMEM;
}

/* Counts the lines up to a record that begins at `offset`. */
static int count_lines(struct judge *k, uint64_t offset, struct leat_error *error)
{
    uint8_t bytes[4096];
    int rc = LEAT_OK;
    while (k->behind < offset && !rc) {
        const size_t n = offset - k->behind < sizeof bytes ? (size_t)(offset - k->behind) : sizeof bytes;
        rc = leat_text_file_bytes(k->text, k->behind, n, bytes, error);
        for (size_t i = 0; i < n && !rc; i++)
            k->line += bytes[i] == '\n';
        k->behind += n;
    }
    return rc;
}

static int add_bad(struct judge *k, struct leat_text_bad bad, struct leat_error *error)
{
    if (!leat_grow(&k->bad, &k->bad_room, k->n_bad + 1, sizeof *k->bad))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", k->text->path);
    k->bad[k->n_bad++] = bad;
    return LEAT_OK;
}

static int judge_record(struct judge *k, uint64_t record, struct leat_error *error)
{
    const struct leat_text_bad *known;
    size_t length;
    uint64_t offset;
    leat_text_index_bad(&k->text->index, record, &known);
    if (known)
        return add_bad(k, *known, error);
    int rc = leat_text_file_read(k->text, record, &k->buffer, &k->room, &length, &offset, error);
    if (!rc)
        rc = count_lines(k, offset, error);
    if (rc)
        return rc;
    k->behind = offset + length;
    if (leat_record_run(&k->walk, k->buffer, length)) {
        uint64_t sample[2] = {0, 0};
        leat_fingerprint_value(sample, leat_hash64(k->buffer, length));
        leat_fingerprint_append(k->sums, sample);
        return LEAT_OK;
    }
    if (k->walk.no_memory)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", k->text->path);
    return add_bad(k, (struct leat_text_bad){record, k->line, offset + k->walk.json.at, k->walk.json.fault}, error);
}

static int judge_all(struct judge *k, struct leat_error *error)
{
    struct leat_text_index *x = &k->text->index;
    int rc = LEAT_OK;
    k->line = 1;
    k->walk = (struct leat_record_walk){.tree = &x->tree, .wanted = k->wanted, .tell = pass};
    for (uint64_t record = 0; record < x->count && !rc; record++) {
        rc = judge_record(k, record, error);
        if (!rc && record % 4096 == 0 && leat_io_interrupted())
            rc = leat_fail(error, LEAT_E_CANCELLED, "opening was interrupted");
    }
    struct leat_text_bad *bad = rc ? NULL : leat_text_index_room(x, k->n_bad, sizeof *bad);
    if (!rc && !bad)
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", k->text->path);
    if (rc)
        return rc;
    if (k->n_bad)
        memcpy(bad, k->bad, k->n_bad * sizeof *bad);
    x->bad = bad;
    x->n_bad = k->n_bad;
    memcpy(x->sums[1], k->sums, sizeof k->sums);
    return LEAT_OK;
}

int leat_jsonl_judge(const struct leat_jsonl *j, struct leat_jsonl_file *f, const struct leat_open_options *options,
                     struct leat_error *error)
{
    struct leat_text_index *x = &f->text.index;
    struct judge k = {.text = &f->text, .wanted = leat_new_array(x->tree.n, 1)};
    bool needed = false;
    int rc = k.wanted ? LEAT_OK : LEAT_E_NOMEM;
    for (size_t i = 0; i < j->text.source.n_fields && !rc; i++)
        if (j->origins[i].whole && f->columns[i].node)
            k.wanted[f->columns[i].node] = LEAT_WISH_WHOLE;
    if (!rc) {
        leat_jsonl_want_below(&x->tree, k.wanted);
        rc = is_needed(x, k.wanted, &needed);
    }
    if (rc)
        leat_fail(error, rc, "no memory to open %s", f->text.path);
    else if (needed && !(rc = judge_all(&k, error)))
        rc = leat_text_file_judge(&f->text, options, error);
    leat_record_walk_destroy(&k.walk);
    leat_free(k.wanted);
    leat_free(k.buffer);
    leat_free(k.bad);
    return rc;
}
