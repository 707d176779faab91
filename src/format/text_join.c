/*
 * Joining chunks: text_join.h. Properties and words are numbered in the order in which the file shows them first, so
 * what comes out does not depend on how the file was cut into chunks.
 */
#include "format/text_join.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/fingerprint.h"

struct join {
    struct leat_text_index *out;
    struct leat_text_chunk **chunks;
    size_t n;
    uint32_t **nodes; /* of each chunk and node: its number in the joined tree */
};

static bool join_lines(struct join *j)
{
    struct leat_text_index *x = j->out;
    for (size_t i = 0; i < j->n; i++) {
        x->count += j->chunks[i]->n;
        x->n_bad += j->chunks[i]->n_bad;
    }
    struct leat_text_line *lines = leat_text_index_room(x, x->count, sizeof *lines);
    struct leat_text_bad *bad = leat_text_index_room(x, x->n_bad, sizeof *bad);
    if (!lines || !bad)
        return false;
    x->lines = lines;
    x->bad = bad;
    uint64_t record = 0;
    for (size_t i = 0; i < j->n; i++) {
        struct leat_text_chunk *c = j->chunks[i];
        if (c->n)
            memcpy(lines + record, c->lines, c->n * sizeof *lines);
        for (size_t b = 0; b < c->n_bad; b++) {
            *bad = c->bad[b];
            bad->record += record;
            bad++->line += x->n_lines;
        }
        leat_fingerprint_join(x->sums[0], c->sums[0], c->n);
        leat_fingerprint_join(x->sums[1], c->sums[1], c->n - c->n_bad);
        record += c->n;
        x->n_lines += c->n_lines;
        leat_free(c->lines);
        c->lines = NULL;
    }
    return true;
}

static bool join_trees(struct join *j)
{
    struct leat_property_tree *to = &j->out->tree;
    if (!leat_property_tree_init(to))
        return false;
    for (size_t i = 0; i < j->n; i++) {
        const struct leat_property_tree *from = &j->chunks[i]->tree;
        if (!(j->nodes[i] = leat_new_array(from->n, sizeof **j->nodes)))
            return false;
        for (size_t node = 1; node < from->n; node++) {
            const struct leat_property *p = &from->nodes[node];
            const uint32_t parent = j->nodes[i][p->parent];
            uint32_t found = UINT32_MAX;
            if (parent != UINT32_MAX)
                found = leat_property_find(to, parent, from->keys + p->key, p->key_length);
            if (found == UINT32_MAX && parent != UINT32_MAX) {
                if (to->nodes[parent].n_children >= LEAT_RECORD_KEYS)
                    to->nodes[parent].wide = true;
                else if ((found = leat_property_add(to, parent, from->keys + p->key, p->key_length)) == UINT32_MAX &&
                         !to->full)
                    return false;
                if (found == UINT32_MAX) /* no room for it */
                    to->nodes[parent].wide = true;
            }
            j->nodes[i][node] = found;
            if (found != UINT32_MAX)
                to->nodes[found].wide = to->nodes[found].wide || p->wide;
        }
        to->nodes[0].wide = to->nodes[0].wide || from->nodes[0].wide;
        to->full = to->full || from->full;
    }
    return true;
}

/* Properties that a chunk does not have, though its records may: it passed keys over, as its tree had no room. */
static bool find_partial(struct join *j)
{
    struct leat_property_tree *to = &j->out->tree;
    uint32_t *local = leat_new_array(to->n, sizeof *local); /* of each joined node: the chunk's; 0: not there */
    bool *unknown = leat_new_array(to->n, sizeof *unknown);
    const bool good = local && unknown;
    for (size_t i = 0; i < j->n && good; i++) {
        const struct leat_property_tree *from = &j->chunks[i]->tree;
        memset(local, 0, to->n * sizeof *local);
        for (uint32_t node = 1; node < from->n; node++)
            if (j->nodes[i][node] != UINT32_MAX)
                local[j->nodes[i][node]] = node;
        for (uint32_t node = 1; node < to->n; node++) {
            const uint32_t parent = to->nodes[node].parent;
            const bool parent_there = !parent || local[parent];
            unknown[node] = !local[node] && (parent_there ? from->nodes[local[parent]].wide : (bool)unknown[parent]);
            to->nodes[node].partial = to->nodes[node].partial || unknown[node];
        }
    }
    leat_free(local);
    leat_free(unknown);
    return good;
}

static bool join_types(struct join *j)
{
    struct leat_text_index *x = j->out;
    uint64_t line = 0;
    if (!(x->properties = leat_text_index_room(x, x->tree.n, sizeof *x->properties)))
        return false;
    for (size_t i = 0; i < j->n; i++) {
        const struct leat_text_chunk *c = j->chunks[i];
        for (size_t node = 1; node < c->n_columns; node++) {
            const struct leat_chunk_column *from = &c->columns[node];
            if (j->nodes[i][node] == UINT32_MAX)
                continue;
            struct leat_text_property *to = &x->properties[j->nodes[i][node]];
            to->types |= from->types;
            to->present += from->present;
            to->integers |= from->integers;
            if (from->nan && !to->nan)
                to->nan = line + from->nan;
            for (size_t t = 0; t < LEAT_RECORD_TYPES; t++)
                if (from->lines[t] && !to->lines[t])
                    to->lines[t] = line + from->lines[t];
        }
        line += c->n_lines;
    }
    return true;
}

/* The column of a node in a chunk, NULL: it has no values there. *dropped: it has no column at all. */
static const struct leat_chunk_column *column_in(const struct join *j, size_t chunk, uint32_t *const *at, uint32_t node,
                                                 bool *dropped)
{
    const struct leat_text_chunk *c = j->chunks[chunk];
    const uint32_t local = at[chunk][node];
    const struct leat_chunk_column *found = local && local < c->n_columns ? &c->columns[local] : NULL;
    *dropped = *dropped || (found && found->dropped);
    return found && found->present ? found : NULL;
}

static void put_numbers(uint64_t *to, const struct leat_chunk_column *from, bool floats)
{
    for (size_t i = 0; i < from->n; i++) {
        int64_t whole;
        double value = (double)from->numbers[i];
        if (floats && !from->floats) {
            memcpy(&whole, &from->numbers[i], sizeof whole);
            if (!(from->types & 1u << LEAT_RECORD_UINT))
                value = (double)whole;
            memcpy(&to[i], &value, sizeof value);
        } else {
            to[i] = from->numbers[i];
        }
    }
}

static bool put_words(uint32_t *to, const struct leat_chunk_column *from, struct leat_words *words, bool *dropped)
{
    uint32_t *number = leat_new_array(from->words.n + 1, sizeof *number);
    bool good = number;
    for (size_t w = 0; w < from->words.n && good && !*dropped; w++) {
        good = leat_words_add(words, from->words.text + from->words.starts[w],
                              (size_t)(from->words.starts[w + 1] - from->words.starts[w]), &number[w]);
        *dropped = number[w] == LEAT_WORDS;
    }
    for (size_t i = 0; i < from->n && good && !*dropped; i++)
        to[i] = i < from->n_valid && from->valid[i] ? number[from->codes[i]] : 0;
    leat_free(number);
    return good;
}

static bool keep_words(struct leat_text_index *x, struct leat_text_property *p, const struct leat_words *words)
{
    uint64_t *starts = leat_text_index_room(x, words->n + 1, sizeof *starts);
    char *text = leat_text_index_room(x, words->text_n, 1);
    if (!starts || !text)
        return false;
    if (words->n) {
        memcpy(starts, words->starts, (words->n + 1) * sizeof *starts);
        memcpy(text, words->text, words->text_n);
    }
    p->starts = starts;
    p->words = text;
    p->n_words = words->n;
    return true;
}

static bool join_valid(struct join *j, uint32_t *const *at, uint32_t node)
{
    struct leat_text_index *x = j->out;
    struct leat_text_property *p = &x->properties[node];
    bool dropped = false;
    uint64_t record = 0;
    if (!p->present || p->present == x->count)
        return true;
    uint8_t *valid = leat_text_index_room(x, x->count, 1);
    for (size_t i = 0; valid && i < j->n; i++) {
        const struct leat_chunk_column *c = column_in(j, i, at, node, &dropped);
        if (c)
            memcpy(valid + record, c->valid, c->n_valid);
        record += j->chunks[i]->n;
    }
    p->valid = valid;
    return valid;
}

static bool join_column(struct join *j, uint32_t *const *at, uint32_t node)
{
    struct leat_text_index *x = j->out;
    struct leat_text_property *p = &x->properties[node];
    enum leat_text_column kind = LEAT_COLUMN_NONE;
    bool dropped = p->integers & LEAT_INTEGERS_BELOW && p->types & 1u << LEAT_RECORD_UINT;
    for (size_t i = 0; i < j->n && !dropped; i++) {
        const struct leat_chunk_column *c = column_in(j, i, at, node, &dropped);
        dropped = dropped || (c && kind && c->kind != kind);
        kind = c ? c->kind : kind;
    }
    if (!join_valid(j, at, node))
        return false;
    if (dropped || !kind)
        return true;
    const size_t each = kind == LEAT_COLUMN_NUMBERS ? 8 : kind == LEAT_COLUMN_WORDS ? 4 : 1;
    const bool floats = kind == LEAT_COLUMN_NUMBERS && p->types & 1u << LEAT_RECORD_FLOAT;
    uint8_t *values = leat_text_index_room(x, x->count, each);
    const uint8_t *valid = p->valid;
    struct leat_words words = {0};
    bool good = values;
    uint64_t record = 0;
    for (size_t i = 0; i < j->n && good && !dropped; i++) {
        const struct leat_chunk_column *c = column_in(j, i, at, node, &dropped);
        if (c && kind == LEAT_COLUMN_NUMBERS)
            put_numbers((uint64_t *)(void *)values + record, c, floats);
        else if (c && kind == LEAT_COLUMN_WORDS)
            good = put_words((uint32_t *)(void *)values + record, c, &words, &dropped);
        else
            for (size_t r = 0; c && r < c->n; r++)
                values[record + r] = (uint8_t)c->codes[r];
        record += j->chunks[i]->n;
    }
    const double missing = (double)NAN;
    for (uint64_t r = 0; good && floats && valid && r < x->count; r++)
        if (!valid[r])
            memcpy(values + 8 * r, &missing, sizeof missing);
    if (good && !dropped && kind == LEAT_COLUMN_WORDS)
        good = keep_words(x, p, &words);
    leat_words_destroy(&words);
    if (good && !dropped) {
        p->column = kind;
        p->values = values;
    }
    return good;
}

/* Numbers of nodes the other way round: of each chunk, by node of the joined tree; 0: not there. */
static bool join_columns(struct join *j)
{
    const size_t n = j->out->tree.n;
    uint32_t **at = leat_new_array(j->n, sizeof *at);
    bool good = at || !j->n;
    for (size_t i = 0; i < j->n && good; i++) {
        good = (at[i] = leat_new_array(n, sizeof **at));
        for (uint32_t node = 1; good && node < j->chunks[i]->tree.n; node++)
            if (j->nodes[i][node] != UINT32_MAX)
                at[i][j->nodes[i][node]] = node;
    }
    for (uint32_t node = 1; node < n && good; node++)
        good = join_column(j, at, node);
    for (size_t i = 0; at && i < j->n; i++)
        leat_free(at[i]);
    leat_free(at);
    return good;
}

int leat_text_join(const char *path, struct leat_text_chunk **chunks, size_t n, struct leat_text_index *out,
                   struct leat_error *error)
{
    struct join j = {.out = out, .chunks = chunks, .n = n, .nodes = leat_new_array(n, sizeof *j.nodes)};
    *out = (struct leat_text_index){0};
    const bool good =
        j.nodes && join_lines(&j) && join_trees(&j) && find_partial(&j) && join_types(&j) && join_columns(&j);
    for (size_t i = 0; j.nodes && i < n; i++)
        leat_free(j.nodes[i]);
    leat_free(j.nodes);
    if (good)
        return LEAT_OK;
    leat_text_index_destroy(out);
    return leat_fail(error, LEAT_E_NOMEM, "no memory for the index of %s", path);
}
