/*
 * Texts, lists of tokens, residues and qualities, each value read once, by all cores: characters, letters, exact
 * duplicates, and sums by a property.
 *
 *     threads   take runs of samples -> per sample: characters, length, hash, group       (arrays over the samples)
 *     then      characters and lengths become distributions; hashes are sorted, and equal ones are duplicates
 *
 * A hash has 128 bits, so that two different values are never taken for one another by chance. 32 bytes a list of
 * tokens are kept, 40 a text, and 4 more with a property, for one field after the other. A sequence may be a
 * chromosome: of letters, a thread has only a part of a value in memory.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "print.h"
#include "progress.h"
#include "stats/stats.h"

enum { RUN = 64, THREADS = 256, GROUPS = 4096, SLOTS = 4 * GROUPS, REPEATED = 10, EXCERPT = 80, PART = 32 << 20 };
#define NO_GROUP UINT32_MAX /* more values than GROUPS, or none */

struct hashed {
    uint64_t low, high, sample;
};

/* The samples of which a property has one value. */
struct group {
    char *name;
    uint64_t hash, samples, length, characters;
};

struct texts {
    const struct leat_dataset *dataset;
    const struct leat_field *field;
    size_t number;
    enum cli_letters letters;
    int by; /* field of the property, or -1 */
    uint64_t count, unit;
    struct hashed *hashes;
    uint64_t *lengths; /* bytes, or elements of a list; UINT64_MAX: not read */
    uint64_t *characters;
    uint32_t *group_of;
    struct group *groups;
    uint32_t n_groups, *slots; /* slots: of a hash table, number + 1 */
    uint64_t run, bytes;       /* samples that a thread takes at a time; of all letters */
    atomic_ullong next, done, done_bytes, broken, not_utf8, largest;
    atomic_bool stop;
    pthread_mutex_t lock; /* over what follows and the groups */
    uint64_t counts[256]; /* of letters */
    bool short_of_memory;
    struct leat_error error;
};

bool cli_stats_is_text(const struct leat_field *field)
{
    if (field->flags & LEAT_FIELD_DERIVED)
        return false;
    return field->kind == LEAT_KIND_STR || (field->kind == LEAT_KIND_ARRAY && field->ndim == 1 &&
                                            field->dtype <= LEAT_I64 && !strncmp(field->name, "tokens", 6));
}

/* ---- one value ------------------------------------------------------------------------------- */

/* Code points of UTF-8: bytes that go on with one do not count. */
static uint64_t count_characters(const uint8_t *text, uint64_t length)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < length; i++)
        n += (text[i] & 0xc0) != 0x80;
    return n;
}

/* Whether it is UTF-8 as the standard has it: shortest forms, no surrogates, up to U+10FFFF. */
static bool is_utf8(const uint8_t *s, uint64_t length)
{
    for (uint64_t i = 0; i < length;) {
        const uint8_t c = s[i++];
        if (c < 0x80)
            continue;
        const unsigned more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        if (c < 0xc2 || c > 0xf4 || length - i < more)
            return false;
        const uint8_t least = c == 0xe0   ? 0xa0
                              : c == 0xf0 ? 0x90
                                          : 0x80,
                      most = c == 0xed   ? 0x9f
                             : c == 0xf4 ? 0x8f
                                         : 0xbf;
        if (s[i] < least || s[i] > most)
            return false;
        for (unsigned k = 1; k < more; k++)
            if ((s[i + k] & 0xc0) != 0x80)
                return false;
        i += more;
    }
    return true;
}

static uint64_t largest_of(const struct leat_value *value)
{
    double most = 0;
    const uint64_t n = value->length / leat_dtype_size(value->dtype);
    const uint16_t *u16 = value->data;
    const uint32_t *u32 = value->data;
    uint64_t best = 0;
    if (value->dtype == LEAT_U16)
        for (uint64_t i = 0; i < n; i++)
            best = u16[i] > best ? u16[i] : best;
    else if (value->dtype == LEAT_U32)
        for (uint64_t i = 0; i < n; i++)
            best = u32[i] > best ? u32[i] : best;
    else
        for (uint64_t i = 0; i < n; i++) {
            const double v = cli_element(value->dtype, value->data, (size_t)i);
            most = v > most ? v : most;
        }
    return best ? best : (uint64_t)most;
}

/* The letters of one thread: in several tables, so that an equal one behind another need not wait for it. */
struct letters {
    uint64_t of[4][256];
    XXH3_state_t *hash;
};

/* Counts the letters of a value, part by part. `out`: its hash and length. */
static int count_letters(struct texts *t, struct letters *letters, uint64_t sample, struct hashed *out,
                         struct leat_error *error)
{
    struct leat_value value;
    uint64_t n = 0, part = PART;
    XXH3_128bits_reset(letters->hash);
    for (; part == PART && !atomic_load(&t->stop) && !cli_interrupted(); n += part) {
        const int rc = leat_dataset_read_part(t->dataset, sample, t->number, n, PART, &value, error);
        if (rc)
            return rc;
        part = value.length;
        const uint8_t *at = value.data;
        for (uint64_t i = 0; i < part; i++)
            letters->of[i & 3][at[i]]++;
        XXH3_128bits_update(letters->hash, at, (size_t)part);
        atomic_fetch_add(&t->done_bytes, part);
        leat_value_clear(&value);
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(letters->hash);
    *out = (struct hashed){hash.low64, hash.high64, sample};
    t->lengths[sample] = n;
    return LEAT_OK;
}

static void raise_to(atomic_ullong *most, uint64_t value)
{
    unsigned long long now = atomic_load(most);
    while (value > now && !atomic_compare_exchange_weak(most, &now, value))
        ;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* The value of a property as text; NULL: no memory. */
static char *text_of(const struct leat_field *field, const struct leat_value *value)
{
    char number[64] = "";
    if (field->kind == LEAT_KIND_STR) {
        char *text = malloc((size_t)value->length + 1);
        if (text) {
            memcpy(text, value->data, (size_t)value->length);
            text[value->length] = 0;
        }
        return text;
    }
    FILE *out = fmemopen(number, sizeof number, "w");
    if (!out)
        return NULL;
    cli_print_element(out, value->dtype, value->data, 0);
    fclose(out);
    return strdup(number);
}

/* The number of the group of a value, which is added if there is room. Under the lock. */
static uint32_t group_of(struct texts *t, const struct leat_field *field, const struct leat_value *value)
{
    const uint64_t hash = XXH3_64bits(value->data, (size_t)value->length);
    uint64_t at = hash % SLOTS;
    for (; t->slots[at]; at = (at + 1) % SLOTS)
        if (t->groups[t->slots[at] - 1].hash == hash)
            return t->slots[at] - 1;
    if (t->n_groups == GROUPS)
        return NO_GROUP;
    char *name = text_of(field, value);
    if (!name) {
        t->short_of_memory = true;
        return NO_GROUP;
    }
    t->groups[t->n_groups] = (struct group){.name = name, .hash = hash};
    t->slots[at] = ++t->n_groups;
    return t->n_groups - 1;
}

static uint32_t find_group(struct texts *t, const struct leat_field *by, uint64_t sample, struct leat_error *error)
{
    struct leat_value value;
    if (leat_dataset_read(t->dataset, sample, (size_t)t->by, &value, error))
        return NO_GROUP;
    pthread_mutex_lock(&t->lock);
    const uint32_t group = group_of(t, by, &value);
    pthread_mutex_unlock(&t->lock);
    leat_value_clear(&value);
    return group;
}

/* ---- threads --------------------------------------------------------------------------------- */

static void failed(struct texts *t, const struct leat_error *error)
{
    pthread_mutex_lock(&t->lock);
    if (!t->error.code)
        t->error = *error;
    pthread_mutex_unlock(&t->lock);
    atomic_store(&t->stop, true);
}

static int read_text(struct texts *t, uint64_t sample, struct leat_error *error)
{
    struct leat_value value;
    const int rc = leat_dataset_read(t->dataset, sample, t->number, &value, error);
    if (rc)
        return rc;
    const XXH128_hash_t hash = XXH3_128bits(value.data, (size_t)value.length);
    t->hashes[sample] = (struct hashed){hash.low64, hash.high64, sample};
    t->lengths[sample] = value.length / t->unit;
    if (t->field->kind == LEAT_KIND_STR) {
        t->characters[sample] = count_characters(value.data, value.length);
        if (!is_utf8(value.data, value.length))
            atomic_fetch_add(&t->not_utf8, 1);
    } else {
        raise_to(&t->largest, largest_of(&value));
    }
    leat_value_clear(&value);
    return LEAT_OK;
}

static void look_at(struct texts *t, struct letters *letters, const struct leat_field *by, uint64_t sample)
{
    struct leat_error error;
    t->lengths[sample] = UINT64_MAX;
    if (by)
        t->group_of[sample] = NO_GROUP;
    t->hashes[sample] = (struct hashed){0, 0, UINT64_MAX};
    const int rc =
        t->letters ? count_letters(t, letters, sample, &t->hashes[sample], &error) : read_text(t, sample, &error);
    if (rc == LEAT_E_DECODE) {
        atomic_fetch_add(&t->broken, 1);
        return;
    }
    if (rc) {
        failed(t, &error);
        return;
    }
    if (by)
        t->group_of[sample] = find_group(t, by, sample, &error);
}

static void *work(void *user)
{
    struct texts *t = user;
    size_t n;
    const struct leat_field *by = t->by < 0 ? NULL : &leat_dataset_fields(t->dataset, &n)[t->by];
    struct letters letters = {.hash = t->letters ? XXH3_createState() : NULL};
    uint64_t first;
    bool good = letters.hash || !t->letters;
    while (good && (first = atomic_fetch_add(&t->next, t->run)) < t->count)
        for (uint64_t s = first; s < t->count && s < first + t->run; s++) {
            if (atomic_load(&t->stop) || cli_interrupted())
                break;
            look_at(t, &letters, by, s);
            atomic_fetch_add(&t->done, 1);
        }
    pthread_mutex_lock(&t->lock);
    t->short_of_memory |= !good;
    for (unsigned i = 0; i < 4 * 256; i++)
        t->counts[i % 256] += letters.of[i / 256][i % 256];
    pthread_mutex_unlock(&t->lock);
    XXH3_freeState(letters.hash);
    return NULL;
}

static void read_progress(void *user, struct cli_progress_state *state)
{
    struct texts *t = user;
    state->samples = atomic_load(&t->done);
    state->bytes = atomic_load(&t->done_bytes);
}

static void read_all(struct texts *t)
{
    pthread_t threads[THREADS];
    unsigned n = 0, wanted = leat_cpu_count() < THREADS ? leat_cpu_count() : THREADS;
    const struct cli_progress_options drawing = {
        .verb = "reading", .total_samples = t->count, .total_bytes = t->bytes, .read = read_progress, .user = t};
    t->run = t->count / (8 * (uint64_t)wanted) < RUN ? t->count / (8 * (uint64_t)wanted) + 1 : RUN;
    struct cli_progress *progress = cli_progress_start(&drawing);
    while (n + 1 < wanted && !pthread_create(&threads[n], NULL, work, t))
        n++;
    work(t);
    while (n)
        pthread_join(threads[--n], NULL);
    cli_progress_stop(progress);
}

/* ---- the results ----------------------------------------------------------------------------- */

static int by_hash(const void *a, const void *b)
{
    const struct hashed *x = a, *y = b;
    if (x->low != y->low)
        return x->low < y->low ? -1 : 1;
    if (x->high != y->high)
        return x->high < y->high ? -1 : 1;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

/* The beginning of a value, as text that is UTF-8 and writes to no terminal. */
static json_t *excerpt(const struct texts *t, uint64_t sample)
{
    struct leat_value value;
    char text[EXCERPT + 1] = "", clean[4 * EXCERPT + 8];
    if (t->letters ? leat_dataset_read_part(t->dataset, sample, t->number, 0, EXCERPT, &value, NULL)
                   : leat_dataset_read(t->dataset, sample, t->number, &value, NULL))
        return json_string("");
    if (t->letters || t->field->kind == LEAT_KIND_STR) {
        const size_t n = value.length < EXCERPT ? (size_t)value.length : EXCERPT;
        memcpy(text, value.data, n);
        for (size_t i = 0; i < n; i++)
            text[i] = text[i] ? text[i] : ' ';
    } else {
        FILE *out = fmemopen(text, sizeof text, "w");
        const uint64_t n = value.length / t->unit;
        for (uint64_t i = 0; out && i < n && i < 12; i++) {
            fputs(i ? " " : "", out);
            cli_print_element(out, value.dtype, value.data, (size_t)i);
        }
        if (out)
            fclose(out);
    }
    leat_value_clear(&value);
    leat_escape(text, clean, sizeof clean);
    json_t *made = json_string(clean);
    return made ? made : json_string("?");
}

struct repeated {
    uint64_t first, n; /* in the sorted hashes */
};

/* Puts a run of equal values among those that occur most often. */
static void note(struct repeated *most, struct repeated found)
{
    for (size_t i = 0; i < REPEATED; i++)
        if (found.n > most[i].n) {
            const struct repeated other = most[i];
            most[i] = found;
            found = other;
        }
}

static void add_duplicates(struct texts *t, uint64_t known, json_t *into)
{
    struct repeated most[REPEATED] = {{0, 1}};
    uint64_t distinct = 0;
    json_t *list = json_array();
    qsort(t->hashes, (size_t)t->count, sizeof *t->hashes, by_hash);
    for (uint64_t i = 0, n; i < t->count; i += n) {
        n = 1;
        if (t->hashes[i].sample == UINT64_MAX)
            continue;
        while (i + n < t->count && t->hashes[i + n].low == t->hashes[i].low &&
               t->hashes[i + n].high == t->hashes[i].high && t->hashes[i + n].sample != UINT64_MAX)
            n++;
        distinct++;
        if (n > 1)
            note(most, (struct repeated){i, n});
    }
    for (size_t i = 0; i < REPEATED && most[i].n > 1; i++) {
        json_t *samples = json_array();
        for (uint64_t k = 0; k < most[i].n && k < 5; k++)
            json_array_append_new(samples, json_integer((json_int_t)t->hashes[most[i].first + k].sample));
        json_array_append_new(list, json_pack("{sI so so}", "count", (json_int_t)most[i].n, "samples", samples,
                                              "begins", excerpt(t, t->hashes[most[i].first].sample)));
    }
    json_object_set_new(into, "distinct", json_integer((json_int_t)distinct));
    json_object_set_new(into, "duplicates", json_integer((json_int_t)(known - distinct)));
    json_object_set_new(into, "repeated", list);
}

static int by_length(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    return x->length != y->length ? (x->length > y->length ? -1 : 1) : strcmp(x->name, y->name);
}

static void add_groups(struct texts *t, json_t *into)
{
    struct group others = {.name = NULL};
    json_t *list = json_array();
    for (uint64_t s = 0; s < t->count; s++) {
        if (t->lengths[s] == UINT64_MAX)
            continue;
        struct group *g = t->group_of[s] == NO_GROUP ? &others : &t->groups[t->group_of[s]];
        g->samples++;
        g->length += t->lengths[s];
        g->characters += t->field->kind == LEAT_KIND_STR ? t->characters[s] : 0;
    }
    qsort(t->groups, t->n_groups, sizeof *t->groups, by_length);
    for (uint32_t i = 0; i <= t->n_groups; i++) {
        const struct group *g = i < t->n_groups ? &t->groups[i] : &others;
        if (!g->samples)
            continue;
        char *clean = g->name ? malloc(4 * strlen(g->name) + 8) : NULL;
        json_t *name = clean ? json_string(leat_escape(g->name, clean, 4 * strlen(g->name) + 8)) : NULL;
        json_t *one = json_pack("{so sI sI}", "value", name ? name : json_null(), "documents", (json_int_t)g->samples,
                                "total", (json_int_t)g->length);
        if (t->field->kind == LEAT_KIND_STR)
            json_object_set_new(one, "characters", json_integer((json_int_t)g->characters));
        json_array_append_new(list, one);
        free(clean);
    }
    json_object_set_new(into, "by", list);
}

static json_t *found(struct texts *t)
{
    static const char *const units[] = {[CLI_RESIDUES] = "residues", [CLI_QUALITIES] = "qualities"};
    struct cli_numbers lengths = {0}, characters = {0};
    const bool text = t->field->kind == LEAT_KIND_STR;
    uint64_t known = 0, empty = 0, total = 0;
    bool good = true;
    for (uint64_t s = 0; s < t->count; s++) {
        if (t->lengths[s] == UINT64_MAX)
            continue;
        known++;
        empty += !t->lengths[s];
        total += t->lengths[s];
        good = cli_numbers_add(&lengths, (double)t->lengths[s]) && good;
        if (text)
            good = cli_numbers_add(&characters, (double)t->characters[s]) && good;
    }
    json_t *o = json_pack("{ss ss sI sI sI sI so}", "field", t->field->name, "unit",
                          t->letters ? units[t->letters]
                          : text     ? "bytes"
                                     : "tokens",
                          "documents", (json_int_t)known, "empty", (json_int_t)empty, "broken",
                          (json_int_t)atomic_load(&t->broken), "total", (json_int_t)total, "lengths",
                          cli_numbers_json(&lengths, true));
    if (text) {
        json_object_set_new(o, "characters_total", json_real(characters.sum));
        json_object_set_new(o, "characters", cli_numbers_json(&characters, true));
        json_object_set_new(o, "not_utf8", json_integer((json_int_t)atomic_load(&t->not_utf8)));
    } else if (t->letters) {
        cli_stats_composition(t->letters, t->counts, o);
    } else {
        json_object_set_new(o, "largest_token", json_integer((json_int_t)atomic_load(&t->largest)));
    }
    if (t->by >= 0)
        add_groups(t, o);
    add_duplicates(t, known, o);
    if (t->letters == CLI_RESIDUES) {
        for (uint64_t s = 0; s < t->count; s++)
            t->lengths[s] = t->lengths[s] == UINT64_MAX ? 0 : t->lengths[s];
        json_object_set_new(o, "n50", json_integer((json_int_t)cli_stats_n50(t->lengths, (size_t)t->count)));
    }
    cli_numbers_clear(&lengths);
    cli_numbers_clear(&characters);
    t->short_of_memory |= !good;
    return o;
}

/* The bytes of all letters, which lie in the index. */
static uint64_t bytes_of(const struct texts *t)
{
    struct leat_value lengths;
    uint64_t sum = 0;
    if (!t->letters || leat_dataset_column(t->dataset, t->number, true, true, &lengths, NULL))
        return 0;
    for (uint64_t s = 0; s < t->count; s++)
        sum += ((const uint64_t *)lengths.data)[s];
    leat_value_clear(&lengths);
    return sum;
}

json_t *cli_stats_text(const struct leat_dataset *dataset, size_t field, enum cli_letters letters, int by,
                       bool *short_of_memory, struct leat_error *error)
{
    size_t n;
    struct texts t = {.dataset = dataset, .number = field, .by = by, .count = leat_dataset_count(dataset)};
    t.letters = letters;
    t.bytes = bytes_of(&t);
    json_t *made = NULL;
    t.field = &leat_dataset_fields(dataset, &n)[field];
    t.unit = t.field->kind == LEAT_KIND_ARRAY ? leat_dtype_size(t.field->dtype) : 1;
    t.hashes = calloc((size_t)t.count + 1, sizeof *t.hashes);
    t.lengths = calloc((size_t)t.count + 1, sizeof *t.lengths);
    t.characters = calloc(t.field->kind == LEAT_KIND_STR ? (size_t)t.count + 1 : 1, sizeof *t.characters);
    t.group_of = calloc(by >= 0 ? (size_t)t.count + 1 : 1, sizeof *t.group_of);
    t.groups = calloc(GROUPS, sizeof *t.groups);
    t.slots = calloc(SLOTS, sizeof *t.slots);
    pthread_mutex_init(&t.lock, NULL);
    if (t.hashes && t.lengths && t.characters && t.group_of && t.groups && t.slots) {
        read_all(&t);
        if (!t.error.code && !t.short_of_memory && !cli_interrupted())
            made = found(&t);
    } else {
        t.short_of_memory = true;
    }
    *short_of_memory |= t.short_of_memory;
    if (t.error.code && !error->code)
        *error = t.error;
    for (uint32_t i = 0; i < t.n_groups; i++)
        free(t.groups[i].name);
    pthread_mutex_destroy(&t.lock);
    free(t.hashes);
    free(t.lengths);
    free(t.characters);
    free(t.group_of);
    free(t.groups);
    free(t.slots);
    return made;
}
